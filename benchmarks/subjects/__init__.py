"""Who is measured on which store."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.bench import Entry
from benchmarks.subject import Subject

_WRITES = frozenset({"W1", "W2", "W3", "W3-bytes"})
_READS = frozenset({"W4", "W5", "W6"})
_ALL = _WRITES | _READS | {"W7"}

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
            "benchmarks.subjects.openai_agents:OpenAIAgents",
            "peer",
            "SQLiteSession",
            _ALL,
            imports="from agents import SQLiteSession",
        ),
        Entry(
            "LangGraph",
            "benchmarks.subjects.langgraph:LangGraph",
            "peer",
            "MessagesState graph with AsyncSqliteSaver",
            _ALL,
            imports=(
                "from langgraph.graph import MessagesState, StateGraph; "
                "from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver"
            ),
            slow=True,
        ),
        Entry(
            "ADK database",
            "benchmarks.subjects.adk_database:AdkDatabase",
            "peer",
            "DatabaseSessionService on sqlite+aiosqlite",
            _ALL,
            imports="from google.adk.sessions import DatabaseSessionService",
            slow=True,
        ),
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
}


def entry_named(store: str, name: str) -> Entry:
    """The line-up's entry of that name."""
    return next(entry for entry in LINEUPS[store] if entry.name == name)


def make_subject(entry: Entry, directory: Path) -> Subject[Any]:
    """A subject over a directory, not open yet; its library is imported here and not before."""
    module, _, name = entry.target.partition(":")
    subject: Subject[Any] = getattr(import_module(module), name)(directory)
    return subject
