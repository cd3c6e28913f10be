"""The bare driver: the standard library's sqlite3, one JSON row a transaction, synced on each commit."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from benchmarks.messages import Message
from benchmarks.subject import Subject, owner_of

_SCHEMA = """
CREATE TABLE IF NOT EXISTS conversation (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, title TEXT NOT NULL, created REAL NOT NULL, active REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS conversation_active ON conversation (owner, active DESC);
CREATE TABLE IF NOT EXISTS message (
    conversation TEXT NOT NULL, seq INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (conversation, seq)
) WITHOUT ROWID;
"""
_INSERT = "INSERT INTO message VALUES (?, ?, ?)"
_CREATE = "INSERT INTO conversation VALUES (?, ?, '', ?, ?)"
_ALL = "SELECT data FROM message WHERE conversation = ? ORDER BY seq"
_NEWEST = "SELECT data FROM message WHERE conversation = ? ORDER BY seq DESC LIMIT ?"
_LIST = "SELECT id, title, created, active FROM conversation WHERE owner = ? ORDER BY active DESC LIMIT ?"

T = TypeVar("T")


class RawSQLite(Subject[Message]):
    """Called inline: the fastest that one writer can be, at the price of a loop that stands still."""

    async def open(self) -> None:
        self._connection = await self._run(self._connect)
        self._seqs: dict[str, int] = {}

    async def close(self) -> None:
        self._connection.close()

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def create(self, conversation: str) -> None:
        now = time.time()
        self._connection.execute(_CREATE, (conversation, owner_of(conversation), now, now))
        self._seqs[conversation] = 0

    async def append(self, conversation: str, message: Message) -> None:
        seq = self._next(conversation, 1)
        self._connection.execute(_INSERT, (conversation, seq, json.dumps(message)))

    async def turn(self, conversation: str, messages: Sequence[Message]) -> None:
        for message in messages:
            await self.append(conversation, message)

    async def fill(self, conversation: str, messages: Sequence[Message]) -> None:
        first = self._next(conversation, len(messages))
        rows = [(conversation, first + n, json.dumps(message)) for n, message in enumerate(messages)]
        self._connection.execute("BEGIN")
        self._connection.executemany(_INSERT, rows)
        self._connection.execute("COMMIT")

    async def fill_crowd(self, crowd: Sequence[tuple[str, Sequence[Message]]]) -> None:
        start = time.time()
        self._connection.execute("BEGIN")
        for n, (conversation, messages) in enumerate(crowd):
            at = start + n * 1e-3
            self._connection.execute(_CREATE, (conversation, owner_of(conversation), at, at))
            self._connection.executemany(
                _INSERT, [(conversation, seq, json.dumps(message)) for seq, message in enumerate(messages)]
            )
        self._connection.execute("COMMIT")

    async def load(self, conversation: str) -> Sequence[Any]:
        def select() -> list[Any]:
            return [json.loads(row[0]) for row in self._connection.execute(_ALL, (conversation,))]

        return await self._run(select)

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        def select() -> list[Any]:
            rows = self._connection.execute(_NEWEST, (conversation, count)).fetchall()
            return [json.loads(row[0]) for row in reversed(rows)]

        return await self._run(select)

    async def list_newest(self, owner: str, count: int) -> Sequence[Any]:
        return await self._run(lambda: self._connection.execute(_LIST, (owner, count)).fetchall())

    async def _run(self, work: Callable[[], T]) -> T:
        return work()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.directory / "raw.db", isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_SCHEMA)
        return connection

    def _next(self, conversation: str, count: int) -> int:
        if conversation not in self._seqs:
            query = "SELECT coalesce(max(seq) + 1, 0) FROM message WHERE conversation = ?"
            self._seqs[conversation] = self._connection.execute(query, (conversation,)).fetchone()[0]
        first = self._seqs[conversation]
        self._seqs[conversation] = first + count
        return first


class RawSQLiteInThread(RawSQLite):
    """Its reads through ``asyncio.to_thread``: what an application writes that keeps its loop free."""

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)
