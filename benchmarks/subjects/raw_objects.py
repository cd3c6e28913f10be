"""The bare driver of object storage: obstore, one object a message, created only if it is not there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import obstore
from obstore.store import S3Store

from benchmarks.messages import Message
from benchmarks.places import Place, server_url
from benchmarks.subject import Subject

_AT_ONCE = 64


class RawObjects(Subject[Message]):
    """Names are numbers, so the log is what a listing gives. There is no list of conversations."""

    async def open(self) -> None:
        parts = urlsplit(server_url())
        self._bucket = S3Store(
            parts.netloc,
            prefix=Place.of(self.directory).name,
            endpoint=parse_qs(parts.query)["endpoint"][0],
            client_options={"allow_http": True},
        )
        self._seqs: dict[str, int] = {}

    async def close(self) -> None:
        """The client has nothing to close."""

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def create(self, conversation: str) -> None:
        self._seqs[conversation] = 0

    async def append(self, conversation: str, message: Message) -> None:
        if conversation not in self._seqs:
            self._seqs[conversation] = len(await self._names(conversation))
        seq = self._seqs[conversation]
        self._seqs[conversation] = seq + 1
        await obstore.put_async(
            self._bucket, f"{conversation}/{seq:09}", json.dumps(message).encode(), mode="create"
        )

    async def turn(self, conversation: str, messages: Sequence[Message]) -> None:
        for message in messages:
            await self.append(conversation, message)

    async def fill(self, conversation: str, messages: Sequence[Message]) -> None:
        async def write(waiting: Iterator[Message]) -> None:
            for message in waiting:
                await self.append(conversation, message)

        waiting = iter(messages)
        async with asyncio.TaskGroup() as writers:
            for _ in range(_AT_ONCE):
                writers.create_task(write(waiting))

    async def load(self, conversation: str) -> Sequence[Any]:
        return await self._read(await self._names(conversation))

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        return await self._read((await self._names(conversation))[-count:])

    async def _names(self, conversation: str) -> list[str]:
        found = obstore.list(self._bucket, f"{conversation}/")
        return sorted([meta["path"] async for chunk in found for meta in chunk])

    async def _read(self, names: Sequence[str]) -> list[Any]:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def read(name: str) -> Any:
            async with gate:
                answer = await obstore.get_async(self._bucket, name)
                return json.loads(bytes(await answer.bytes_async()))

        return await asyncio.gather(*(read(name) for name in names))
