"""The bare driver of Redis and Valkey: one ``XADD`` a message, a stream for each conversation."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from benchmarks.messages import Message
from benchmarks.places import Place, server_url
from benchmarks.subject import Subject, owner_of

BATCH = 64
"""Commands in a pipeline when many write at once."""

_FILL = 1000


class _Batch:
    """Commands that wait to be sent together."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, str]] = []
        self.sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class RawRedis(Subject[Message]):
    """Alone, each append is a command; with many at once, those that wait share a pipeline."""

    async def open(self) -> None:
        self._prefix = Place.of(self.directory).name
        self._client: Any = Redis.from_url(server_url())
        self._pipelined = False
        self._batch: _Batch | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        await self._client.aclose()

    async def brace(self, writers: int) -> None:
        self._pipelined = True

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def create(self, conversation: str) -> None:
        await self._client.zadd(self._key(owner_of(conversation)), {conversation: time.time()})

    async def append(self, conversation: str, message: Message) -> None:
        key, text = self._key(conversation), json.dumps(message)
        if not self._pipelined:
            await self._client.xadd(key, {"m": text})
            return
        batch = self._batch
        if batch is None:
            batch = self._batch = _Batch()
            task = asyncio.create_task(self._send(batch))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        batch.commands.append((key, text))
        if len(batch.commands) == BATCH:
            self._batch = None
        await batch.sent

    async def turn(self, conversation: str, messages: Sequence[Message]) -> None:
        for message in messages:
            await self.append(conversation, message)

    async def fill(self, conversation: str, messages: Sequence[Message]) -> None:
        await self._add([(self._key(conversation), json.dumps(message)) for message in messages])

    async def fill_crowd(self, crowd: Sequence[tuple[str, Sequence[Message]]]) -> None:
        start = time.time()
        pipeline = self._client.pipeline(transaction=False)
        for n, (conversation, _) in enumerate(crowd):
            pipeline.zadd(self._key(owner_of(conversation)), {conversation: start + n * 1e-3})
        await pipeline.execute()
        await self._add(
            [(self._key(name), json.dumps(message)) for name, messages in crowd for message in messages]
        )

    async def load(self, conversation: str) -> Sequence[Any]:
        entries = await self._client.xrange(self._key(conversation))
        return [json.loads(fields[b"m"]) for _, fields in entries]

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        entries = await self._client.xrevrange(self._key(conversation), count=count)
        return [json.loads(fields[b"m"]) for _, fields in reversed(entries)]

    async def list_newest(self, owner: str, count: int) -> Sequence[Any]:
        names: list[bytes] = await self._client.zrevrange(self._key(owner), 0, count - 1)
        return names

    def _key(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    async def _add(self, commands: Sequence[tuple[str, str]]) -> None:
        for start in range(0, len(commands), _FILL):
            pipeline = self._client.pipeline(transaction=False)
            for key, text in commands[start : start + _FILL]:
                pipeline.xadd(key, {"m": text})
            await pipeline.execute()

    async def _send(self, batch: _Batch) -> None:
        """Runs when all who were woken together have added theirs."""
        if self._batch is batch:
            self._batch = None
        try:
            await self._add(batch.commands)
        except Exception as exc:
            batch.sent.set_exception(exc)
        else:
            batch.sent.set_result(None)
