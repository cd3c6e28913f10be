"""The bare driver of MySQL and MariaDB: asyncmy with autocommit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncmy

from benchmarks.places import connection_of
from benchmarks.subjects.raw_sql import Link, RawSQL

_FILL = 1000


class MySQLLink(Link):
    """Statements are sent as text, which is what the driver does by default."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, statement: str, *values: Any) -> Sequence[Any]:
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement.replace("?", "%s"), values)
            rows: Sequence[Any] = await cursor.fetchall()
            return rows

    async def script(self, statements: Sequence[str]) -> None:
        for statement in statements:
            await self.run(statement)

    async def fill(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        values = ", ".join(["%s"] * len(columns))
        insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
        async with self._connection.cursor() as cursor:
            for start in range(0, len(rows), _FILL):
                await cursor.executemany(insert, rows[start : start + _FILL])

    async def close(self) -> None:
        await self._connection.ensure_closed()


class RawMySQL(RawSQL):
    """One table of JSON text, one of conversations."""

    schema = (
        "CREATE TABLE conversation (id VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL,"
        " title VARCHAR(255) NOT NULL, created DOUBLE NOT NULL, active DOUBLE NOT NULL,"
        " INDEX conversation_active (owner, active))",
        "CREATE TABLE message (conversation VARCHAR(64) NOT NULL, seq INT NOT NULL, data LONGTEXT NOT NULL,"
        " PRIMARY KEY (conversation, seq))",
    )

    async def _connect(self, url: str) -> Link:
        return MySQLLink(await asyncmy.connect(**connection_of(url)))
