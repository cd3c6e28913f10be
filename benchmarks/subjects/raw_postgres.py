"""The bare driver of PostgreSQL: asyncpg with prepared statements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.subjects.raw_sql import Link, RawSQL


class PostgresLink(Link):
    """Each statement is prepared once."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._prepared: dict[str, Any] = {}

    async def run(self, statement: str, *values: Any) -> Sequence[Any]:
        prepared = self._prepared.get(statement)
        if prepared is None:
            first, *others = statement.split("?")
            numbered = first + "".join(f"${n}{part}" for n, part in zip(count(1), others, strict=False))
            prepared = self._prepared[statement] = await self._connection.prepare(numbered)
        rows: list[Any] = await prepared.fetch(*values)
        return rows

    async def script(self, statements: Sequence[str]) -> None:
        await self._connection.execute(";".join(statements))

    async def fill(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        await self._connection.copy_records_to_table(table, columns=columns, records=rows)
        await self._connection.execute(f"ANALYZE {table}")

    async def close(self) -> None:
        await self._connection.close()


class RawPostgres(RawSQL):
    """One table of JSON text, one of conversations."""

    schema = (
        "CREATE TABLE conversation (id text PRIMARY KEY, owner text NOT NULL, title text NOT NULL,"
        " created float8 NOT NULL, active float8 NOT NULL)",
        "CREATE INDEX conversation_active ON conversation (owner, active DESC)",
        "CREATE TABLE message (conversation text NOT NULL, seq int NOT NULL, data text NOT NULL,"
        " PRIMARY KEY (conversation, seq))",
    )

    async def _connect(self, url: str) -> Link:
        return PostgresLink(await asyncpg.connect(url))
