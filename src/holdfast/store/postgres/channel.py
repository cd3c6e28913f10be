"""
News between processes, by LISTEN and NOTIFY.

A commit does not notify by itself: that would serialize all commits of the database. Each process
tells what it committed a little later, on a connection of its own, many at once. A notification that
is lost delays a hint until the next poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec

from holdfast.errors import StoreError
from holdfast.ids import ConversationKey
from holdfast.store.postgres.driver import Access
from holdfast.store.postgres.faults import translated
from holdfast.store.sql.database import Database
from holdfast.store.watchers import Watchers

TOGETHER_SECONDS = 0.02
PING_SECONDS = 30.0
RECONNECT_SECONDS = 0.1, 2.0
_MAX_PAYLOAD = 7900
_ROOM_FOR_FRAME = 100


class _Hints(msgspec.Struct, array_like=True, tag="hints"):
    sender: str
    keys: list[tuple[str, str] | None]


class _Signal(msgspec.Struct, array_like=True, tag="signal"):
    """A piece of a signal; ``left`` says how many follow."""

    sender: str
    number: int
    left: int
    owner: str
    id: str
    body: bytes


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Hints | _Signal).decode


class Channel:
    """What this process tells the others, and hears from them."""

    def __init__(
        self, access: Access, database: Database, queries: SimpleNamespace, watchers: Watchers, name: str
    ) -> None:
        self._access = access
        self._fetch = database.fetch
        self._q = queries
        self._watchers = watchers
        self._name = name
        self._me = os.urandom(8).hex()
        self._signals = 0
        self._untold: dict[ConversationKey, None] = {}
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._heard = 0
        self._pieces: dict[tuple[str, int], list[bytes]] = {}

    async def listen(self) -> None:
        """Hear from the others from now on. Where a proxy is in between, only polling can."""
        if self._access.pooled:
            return
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        await self._tried.wait()

    def tell(self, keys: Iterable[ConversationKey]) -> None:
        """Tell the others soon that these conversations changed."""
        self._untold |= dict.fromkeys(keys)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    async def signal(self, key: ConversationKey, payload: bytes) -> None:
        """Send bytes to whoever watches the conversation in another process."""
        self._signals += 1
        pieces = list(_pieces(self._me, self._signals, key, payload))
        if pieces:
            await self._fetch(self._q.notify, channel=self._name, payloads=pieces)

    async def close(self) -> None:
        """Tell what is still untold, and stop listening."""
        if self._telling is not None:
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _tell(self) -> None:
        while self._untold:
            keys, self._untold = self._untold, {}
            try:
                await self._fetch(self._q.notify, channel=self._name, payloads=_hints(self._me, keys))
            except StoreError:
                # A hint that is lost is found by the next poll.
                continue
            await asyncio.sleep(TOGETHER_SECONDS)

    async def _listen(self) -> None:
        soon, late = RECONNECT_SECONDS
        delay = soon
        try:
            while True:
                before = self._heard
                with contextlib.suppress(StoreError):
                    await self._hear_until_lost()
                self._tried.set()
                delay = soon if self._heard > before else min(2 * delay, late)
                await asyncio.sleep(delay)
        finally:
            self._tried.set()

    async def _hear_until_lost(self) -> None:
        with translated(self._access.shown):
            connection = await self._access.connect(patient=True)
            try:
                lost = asyncio.Event()
                connection.add_termination_listener(lambda _: lost.set())
                await connection.add_listener(self._name, self._hear)
                self._heard += 1
                self._tried.set()
                if self._heard > 1:
                    # Nobody knows what was told in between.
                    self._pieces.clear()
                    self._watchers.changed([*self._watchers.keys, None])
                await self._until(lost, connection)
            finally:
                connection.terminate()

    async def _until(self, lost: asyncio.Event, connection: Any) -> None:
        while not lost.is_set() and not connection.is_closed():
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await lost.wait()
            except TimeoutError:
                await connection.execute("SELECT 1", timeout=self._access.timeout)

    def _hear(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        try:
            news = _decode(payload)
        except msgspec.MsgspecError:
            # Somebody else's, or of another version: a hint that says nothing.
            self._watchers.changed([None])
            return
        if news.sender == self._me:
            return
        if isinstance(news, _Hints):
            self._watchers.changed([None if key is None else ConversationKey(*key) for key in news.keys])
            return
        pieces = self._pieces.setdefault((news.sender, news.number), [])
        pieces.append(news.body)
        if not news.left:
            del self._pieces[news.sender, news.number]
            self._watchers.signal(ConversationKey(news.owner, news.id), b"".join(pieces))


def _hints(sender: str, keys: Iterable[ConversationKey]) -> list[str]:
    """Payloads that name conversations; one that is too long for any is there without its name."""
    payloads: list[str] = []
    named: list[tuple[str, str] | None] = []
    room = _MAX_PAYLOAD - _ROOM_FOR_FRAME
    for key in keys:
        name: tuple[str, str] | None = (key.owner, key.id)
        size = len(_encode(name)) + 1
        if size > _MAX_PAYLOAD - _ROOM_FOR_FRAME:
            name, size = None, 5
        if size > room:
            payloads.append(_encode(_Hints(sender, named)).decode())
            named, room = [], _MAX_PAYLOAD - _ROOM_FOR_FRAME
        named.append(name)
        room -= size
    return [*payloads, _encode(_Hints(sender, named)).decode()]


def _pieces(sender: str, number: int, key: ConversationKey, payload: bytes) -> Iterator[str]:
    """A signal in payloads; none if the conversation's name alone is too long for one."""
    frame = len(_encode(_Signal(sender, number, len(payload), key.owner, key.id, b"")))
    size = (_MAX_PAYLOAD - frame) // 4 * 3
    if size <= 0:
        return
    starts = range(0, max(len(payload), 1), size)
    for left, start in zip(reversed(range(len(starts))), starts, strict=True):
        body = payload[start : start + size]
        yield _encode(_Signal(sender, number, left, key.owner, key.id, body)).decode()
