"""Holdfast itself, through its store contract."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from benchmarks.messages import Message
from benchmarks.places import Place
from benchmarks.subject import Subject, owner_of
from holdfast.store import Append, ConversationKey, SetHeader, connect

_FILL_COMMIT = 100
_FILL_WRITERS = 64
_TAIL = 50

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def _key(conversation: str) -> ConversationKey:
    return ConversationKey(owner_of(conversation), conversation)


class Holdfast(Subject[Message]):
    """Events with search text, as applications write them; encoding is part of what is timed."""

    searchable: ClassVar[bool] = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        # Imports the backend, which is no part of opening a store.
        self._store = connect(self._url())

    @abstractmethod
    def _url(self) -> str:
        """What to connect to, with the defaults of its kind of store."""

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def create(self, conversation: str) -> None:
        await self._store.commit(_key(conversation), [], create=SetHeader())

    async def append(self, conversation: str, message: Message) -> None:
        await self._store.commit(_key(conversation), [self._event(message)])

    async def turn(self, conversation: str, messages: Sequence[Message]) -> None:
        await self._store.commit(_key(conversation), [self._event(message) for message in messages])

    async def fill(self, conversation: str, messages: Sequence[Message]) -> None:
        key = _key(conversation)
        for start in range(0, len(messages), _FILL_COMMIT):
            ops = [self._event(message) for message in messages[start : start + _FILL_COMMIT]]
            await self._store.commit(key, ops)
        await self._store.commit(key, [SetHeader(tail=max(1, len(messages) - _TAIL + 1))])

    async def fill_crowd(self, crowd: Sequence[tuple[str, Sequence[Message]]]) -> None:
        async def write(waiting: Iterator[tuple[str, Sequence[Message]]]) -> None:
            for conversation, messages in waiting:
                # Without search text: nothing that is timed in a crowd reads the index, and
                # building it for a million events would take most of the run.
                ops = [Append("message", _encode(message)) for message in messages]
                await self._store.commit(_key(conversation), ops, create=SetHeader())

        waiting = iter(crowd)
        async with asyncio.TaskGroup() as writers:
            for _ in range(_FILL_WRITERS):
                writers.create_task(write(waiting))

    async def load(self, conversation: str) -> Sequence[Any]:
        return [_decode(event.data) for event in await self._store.events(_key(conversation))]

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        events = await self._store.events(_key(conversation), limit=count)
        return [_decode(event.data) for event in events]

    async def resume(self, conversation: str, count: int) -> Sequence[Any]:
        loaded = await self._store.load(_key(conversation))
        return [_decode(event.data) for event in loaded.events]

    async def list_newest(self, owner: str, count: int) -> Sequence[Any]:
        return await self._store.headers(owner, limit=count)

    async def settle(self) -> None:
        await self._store.settle()

    def _event(self, message: Message) -> Append:
        return Append("message", _encode(message), text=message["content"] if self.searchable else None)


class HoldfastSQLite(Holdfast):
    """On a file, with what the URL gives by default."""

    def _url(self) -> str:
        return f"sqlite:///{self.directory}/holdfast.db"


class HoldfastSQLiteUnsearchable(HoldfastSQLite):
    """The same without search text."""

    searchable = False


class HoldfastOnServer(Holdfast):
    """On the server of the run, whichever it is, with what the URL gives by default."""

    async def open(self) -> None:
        if self._place.fresh:
            await self._place.prepare()
            await self._store.migrate()
        await super().open()

    def _url(self) -> str:
        self._place = Place.of(self.directory)
        return self._place.url


class HoldfastOnServerUnsearchable(HoldfastOnServer):
    """The same without search text."""

    searchable = False
