"""Who is measured on which store."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.bench import Entry
from benchmarks.subject import Subject

_BYTES = frozenset({"W3-bytes"})
_WRITES = frozenset({"W1", "W2", "W3"}) | _BYTES
_READS = frozenset({"W4", "W5", "W6"})
_ALL = _WRITES | _READS | {"W7"}
_SERVER = _ALL - _BYTES
"""What files weigh can be told; what one of many tenants weighs on a server can't."""


def _ours(store: str) -> tuple[Entry, Entry]:
    """Holdfast on the server of a store."""
    imports = f"import holdfast.store.{store}"
    return (
        Entry(
            "holdfast",
            "benchmarks.subjects.holdfast:HoldfastOnServer",
            "ours",
            "with search text",
            _SERVER,
            imports=imports,
            package="import holdfast",
        ),
        Entry(
            "holdfast, no search",
            "benchmarks.subjects.holdfast:HoldfastOnServerUnsearchable",
            "ours",
            "the same without search text",
            _WRITES - _BYTES,
            imports=imports,
        ),
    )


def _openai_sqlalchemy(target: str, driver: str) -> Entry:
    return Entry(
        "OpenAI Agents",
        f"benchmarks.subjects.openai_sqlalchemy:{target}",
        "peer",
        f"SQLAlchemySession on {driver}",
        _SERVER,
        imports="from agents.extensions.memory import SQLAlchemySession",
        slow=True,
    )


def _adk_database(target: str, driver: str, workloads: frozenset[str]) -> Entry:
    return Entry(
        "ADK database",
        f"benchmarks.subjects.adk_database:{target}",
        "peer",
        f"DatabaseSessionService on {driver}",
        workloads,
        imports="from google.adk.sessions import DatabaseSessionService",
        slow=True,
    )


LINEUPS: dict[str, tuple[Entry, ...]] = {
    "sqlite": (
        Entry(
            "holdfast",
            "benchmarks.subjects.holdfast:HoldfastSQLite",
            "ours",
            "with search text",
            _ALL,
            imports="import holdfast.store.sqlite",
            package="import holdfast",
        ),
        Entry(
            "holdfast, no search",
            "benchmarks.subjects.holdfast:HoldfastSQLiteUnsearchable",
            "ours",
            "the same without search text",
            _WRITES,
            imports="import holdfast.store.sqlite",
        ),
        Entry(
            "raw",
            "benchmarks.subjects.raw_sqlite:RawSQLite",
            "raw",
            "stdlib sqlite3 inline, one JSON row a transaction, WAL and synchronous=FULL",
            _WRITES | {"W7"},
            imports="import asyncio, json, sqlite3",
        ),
        Entry(
            "raw-thread",
            "benchmarks.subjects.raw_sqlite:RawSQLiteInThread",
            "raw",
            "the same, reads through asyncio.to_thread and stdlib json",
            _READS,
            imports="import asyncio, json, sqlite3",
            files_of="raw",
        ),
        Entry(
            "OpenAI Agents",
            "benchmarks.subjects.openai_sqlite:OpenAISQLite",
            "peer",
            "SQLiteSession",
            _ALL,
            imports="from agents import SQLiteSession",
        ),
        Entry(
            "LangGraph",
            "benchmarks.subjects.langgraph_sqlite:LangGraphSQLite",
            "peer",
            "MessagesState graph with AsyncSqliteSaver",
            _ALL,
            imports=(
                "from langgraph.graph import MessagesState, StateGraph; "
                "from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver"
            ),
            slow=True,
        ),
        _adk_database("AdkDatabase", "sqlite+aiosqlite", _ALL),
        Entry(
            "ADK sqlite",
            "benchmarks.subjects.adk_sqlite:AdkSQLite",
            "peer",
            "SqliteSessionService",
            _ALL,
            imports="from google.adk.sessions.sqlite_session_service import SqliteSessionService",
            slow=True,
        ),
    ),
    "postgres": (
        *_ours("postgres"),
        Entry(
            "raw",
            "benchmarks.subjects.raw_postgres:RawPostgres",
            "raw",
            "asyncpg, one prepared INSERT of JSON text a transaction, on one connection, W2 on 16",
            _SERVER,
            imports="import asyncio, json, asyncpg",
        ),
        _openai_sqlalchemy("OpenAIPostgres", "postgresql+asyncpg"),
        Entry(
            "LangGraph",
            "benchmarks.subjects.langgraph_postgres:LangGraphPostgres",
            "peer",
            "MessagesState graph with AsyncPostgresSaver",
            _SERVER,
            imports=(
                "from langgraph.graph import MessagesState, StateGraph; "
                "from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver"
            ),
            slow=True,
        ),
        _adk_database("AdkPostgres", "postgresql+asyncpg", _SERVER),
    ),
    "mysql": (
        *_ours("mysql"),
        Entry(
            "raw",
            "benchmarks.subjects.raw_mysql:RawMySQL",
            "raw",
            "asyncmy with autocommit, one INSERT of JSON text a transaction, on one connection, W2 on 16",
            _SERVER,
            imports="import asyncio, json, asyncmy",
        ),
        _openai_sqlalchemy("OpenAIMySQL", "mysql+asyncmy, tables made by hand"),
        _adk_database("AdkMySQL", "mysql+asyncmy", _SERVER),
    ),
    "redis": (
        *_ours("redis"),
        Entry(
            "raw",
            "benchmarks.subjects.raw_redis:RawRedis",
            "raw",
            "redis.asyncio, one XADD of JSON text at a time, W2 in pipelines of 64",
            _SERVER,
            imports="import asyncio, json, redis.asyncio",
        ),
        Entry(
            "OpenAI Agents",
            "benchmarks.subjects.openai_redis:OpenAIRedis",
            "peer",
            "RedisSession",
            _SERVER,
            imports="from agents.extensions.memory import RedisSession",
        ),
    ),
    "objects": (
        *_ours("objects"),
        Entry(
            "raw",
            "benchmarks.subjects.raw_objects:RawObjects",
            "raw",
            "obstore, one object a message, created only if it is not there",
            _SERVER - {"W6"},
            imports="import asyncio, json, obstore",
        ),
    ),
}


def on_server(store: str) -> bool:
    """Whether a store needs a server, so that its data is not below a subject's directory."""
    return store != "sqlite"


def entry_named(store: str, name: str) -> Entry:
    """The line-up's entry of that name."""
    return next(entry for entry in LINEUPS[store] if entry.name == name)


def make_subject(entry: Entry, directory: Path) -> Subject[Any]:
    """A subject over a directory, not open yet; its library is imported here and not before."""
    module, _, name = entry.target.partition(":")
    subject: Subject[Any] = getattr(import_module(module), name)(directory)
    return subject
