"""The bare drivers of database servers: one JSON row a transaction, on one connection or a small pool."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from benchmarks.messages import Message
from benchmarks.places import Place
from benchmarks.subject import Subject, owner_of

POOL = 16
"""Connections when many write at once."""

_INSERT = "INSERT INTO message (conversation, seq, data) VALUES (?, ?, ?)"
_CREATE = "INSERT INTO conversation (id, owner, title, created, active) VALUES (?, ?, '', ?, ?)"
_ALL = "SELECT data FROM message WHERE conversation = ? ORDER BY seq"
_NEWEST = "SELECT data FROM message WHERE conversation = ? ORDER BY seq DESC LIMIT ?"
_LIST = "SELECT id, title, created, active FROM conversation WHERE owner = ? ORDER BY active DESC LIMIT ?"
_END = "SELECT coalesce(max(seq) + 1, 0) FROM message WHERE conversation = ?"

_CONVERSATION = ("id", "owner", "title", "created", "active")
_MESSAGE = ("conversation", "seq", "data")


class Link(ABC):
    """One connection. Statements have ``?`` where values go."""

    @abstractmethod
    async def run(self, statement: str, *values: Any) -> Sequence[Any]:
        """Run one statement in a transaction of its own."""

    @abstractmethod
    async def script(self, statements: Sequence[str]) -> None:
        """Run statements that take no values and give no rows."""

    @abstractmethod
    async def fill(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert many rows by the fastest way there is."""

    @abstractmethod
    async def close(self) -> None:
        """Hang up."""


class RawSQL(Subject[Message]):
    """Whoever appends takes the connection that was used last; alone, that is always the same one."""

    schema: tuple[str, ...]

    @abstractmethod
    async def _connect(self, url: str) -> Link: ...

    async def open(self) -> None:
        place = Place.of(self.directory)
        await place.prepare()
        self._url = place.url
        self._link = await self._connect(self._url)
        self._links = [self._link]
        self._free: asyncio.LifoQueue[Link] = asyncio.LifoQueue()
        self._free.put_nowait(self._link)
        self._seqs: dict[str, int] = {}
        if place.fresh:
            await self._link.script(self.schema)

    async def close(self) -> None:
        for link in self._links:
            await link.close()

    async def brace(self, writers: int) -> None:
        for n in range(len(self._links), min(writers, POOL)):
            link = await self._connect(self._url)
            # The first use of a statement prepares it.
            await link.run(_INSERT, "brace", n, "{}")
            self._links.append(link)
            self._free.put_nowait(link)

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def create(self, conversation: str) -> None:
        now = time.time()
        await self._link.run(_CREATE, conversation, owner_of(conversation), now, now)
        self._seqs[conversation] = 0

    async def append(self, conversation: str, message: Message) -> None:
        seq = self._seqs.get(conversation)
        if seq is None:
            [[seq]] = await self._link.run(_END, conversation)
        self._seqs[conversation] = seq + 1
        link = await self._free.get()
        try:
            await link.run(_INSERT, conversation, seq, json.dumps(message))
        finally:
            self._free.put_nowait(link)

    async def turn(self, conversation: str, messages: Sequence[Message]) -> None:
        for message in messages:
            await self.append(conversation, message)

    async def fill(self, conversation: str, messages: Sequence[Message]) -> None:
        rows = [(conversation, seq, json.dumps(message)) for seq, message in enumerate(messages)]
        await self._link.fill("message", _MESSAGE, rows)
        self._seqs[conversation] = len(rows)

    async def fill_crowd(self, crowd: Sequence[tuple[str, Sequence[Message]]]) -> None:
        start = time.time()
        conversations = [
            (conversation, owner_of(conversation), "", start + n * 1e-3, start + n * 1e-3)
            for n, (conversation, _) in enumerate(crowd)
        ]
        await self._link.fill("conversation", _CONVERSATION, conversations)
        rows = [
            (conversation, seq, json.dumps(message))
            for conversation, messages in crowd
            for seq, message in enumerate(messages)
        ]
        await self._link.fill("message", _MESSAGE, rows)

    async def load(self, conversation: str) -> Sequence[Any]:
        return [json.loads(row[0]) for row in await self._link.run(_ALL, conversation)]

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        rows = await self._link.run(_NEWEST, conversation, count)
        return [json.loads(row[0]) for row in reversed(rows)]

    async def list_newest(self, owner: str, count: int) -> Sequence[Any]:
        return await self._link.run(_LIST, owner, count)
