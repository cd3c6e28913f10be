"""All that a conversation is: read from a store, hashed, and written to another as of the times it had."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby

import msgspec

from holdfast.clock import Clock
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Event, Header, Record
from holdfast.store import (
    ABSENT,
    Append,
    DropRecords,
    MoveCall,
    Op,
    OpenCall,
    PutRecord,
    SetHeader,
    Store,
    Tag,
    Wake,
)

UNFINISHED = "holdfast.copy"
"""The collection of the records that a conversation has while it is being written."""

_PAGE = 500
_COMMIT_OPS = 500
_COMMIT_BYTES = 4 << 20

_hashed = msgspec.msgpack.Encoder(order="deterministic").encode

TagName = tuple[str, str, str]


class Searchable(msgspec.Struct, frozen=True):
    """An event, and what search finds it by."""

    event: Event
    text: str | None = None


class Contents(ABC):
    """
    A conversation wherever it is, to be read once, in the order of the methods.

    The header's ``revision``, ``version`` and ``lease`` mean nothing here.
    """

    header: Header

    @abstractmethod
    async def calls(self) -> list[Call]:
        """In the order they were opened."""

    @abstractmethod
    def events(self) -> AsyncIterator[list[Searchable]]:
        """In order, some at a time."""

    @abstractmethod
    def records(self) -> AsyncIterator[list[Record]]:
        """By collection and key, some at a time."""

    @abstractmethod
    async def tags(self) -> list[TagName]:
        """In order."""


class StoreContents(Contents):
    """A conversation in a store. Marks of an unfinished copy are left out."""

    def __init__(self, store: Store, header: Header) -> None:
        self.header = header
        self._store, self._key = store, header.key

    @classmethod
    async def of(cls, store: Store, key: ConversationKey) -> StoreContents:
        """
        What a store has of a conversation now.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        return cls(store, await store.header(key))

    async def calls(self) -> list[Call]:
        return await self._store.calls(self._key)

    async def events(self) -> AsyncIterator[list[Searchable]]:
        last = self.header.last_seq
        for after in range(0, last, _PAGE):
            before = min(after + _PAGE, last) + 1
            texts = await self._store.texts(self._key, after=after, before=before)
            events = await self._store.events(self._key, after=after, before=before)
            yield [Searchable(event, texts.get(event.seq)) for event in events]

    async def records(self) -> AsyncIterator[list[Record]]:
        for collection in (await self._store.inventory(self._key)).collections:
            after = None
            while collection != UNFINISHED:
                page = await self._store.records(self._key, collection, after=after, limit=_PAGE)
                if not page:
                    break
                yield page
                after = page[-1].key

    async def tags(self) -> list[TagName]:
        return (await self._store.inventory(self._key)).tags


async def digest(contents: Contents) -> str:
    """A hash of all that is copied."""
    header = contents.header
    hash = blake2b(digest_size=32)

    def add(*values: object) -> None:
        hash.update(_hashed(values))

    add(header.last_seq, header.created_at, header.activity, header.title, header.status, header.agent)
    add(header.metadata, header.settings, header.tail, header.takeovers)
    for c in await contents.calls():
        add(c.call_id, c.name, c.status, c.executor, c.step, c.data, c.opened_at, c.expires_at is not None)
    async for events in contents.events():
        for e, text in ((some.event, some.text) for some in events):
            add(e.seq, e.type, e.data, e.at, e.id, text)
    async for records in contents.records():
        for r in records:
            add(r.collection, r.key, r.data)
    for tag in await contents.tags():
        add(*tag)
    return hash.hexdigest()


async def is_unfinished(store: Store, key: ConversationKey) -> bool:
    """Whether a conversation is what a copy left that did not get to its end."""
    return bool(await store.records(key, UNFINISHED))


async def write(store: Store, contents: Contents, clock: Clock) -> None:
    """
    Write a conversation that is not there yet; it counts as unfinished until ``finish``.

    Raises:
        AlreadyExists: It is there.
    """
    header, key = contents.header, contents.header.key

    async def commit(ops: Iterable[Op], at: int) -> None:
        for some in _portions(ops):
            await store.commit(key, some, at=at)

    create = SetHeader(
        title=header.title,
        status=header.status,
        agent=header.agent,
        metadata=header.metadata,
        settings=header.settings,
        tail=header.tail,
        takeovers=header.takeovers,
        when=ABSENT,
    )
    started = [PutRecord(UNFINISHED, "since", b"")]
    await store.commit(key, started, create=create, at=header.created_at)
    calls = await contents.calls()
    for at, some in groupby(calls, key=lambda call: call.opened_at):
        await commit(map(_opening, some), at)
    for moves in _rounds(calls, clock):
        await commit(moves, header.created_at)
    async for page in contents.events():
        for at, events in groupby(page, key=lambda some: some.event.at):
            appends = ((some.event, some.text) for some in events)
            await commit((Append(e.type, e.data, e.id, text) for e, text in appends), at)
    async for records in contents.records():
        await commit((PutRecord(r.collection, r.key, r.data) for r in records), header.activity)
    await commit((Tag(*tag) for tag in await contents.tags()), header.activity)
    # The last thing that moved its activity may be gone.
    await commit([PutRecord(UNFINISHED, "until", b"")], header.activity)


async def finish(store: Store, header: Header, clock: Clock) -> None:
    """Let a conversation that was written count as whole, and wake if it has work."""
    ops: list[Op] = [DropRecords(UNFINISHED, prefix="")]
    if header.wake_at is not None:
        ops.append(Wake(max(0, header.wake_at - clock()) / 1e6))
    await store.commit(header.key, ops, at=header.activity)


def _opening(call: Call) -> OpenCall:
    return OpenCall(call.call_id, call.name, _opened_as(call), call.executor, call.data)


def _opened_as(call: Call) -> CallStatus:
    if call.step:
        return "interrupted"
    return "completed" if call.status == "completed" else "pending"


def _rounds(calls: Sequence[Call], clock: Clock) -> Iterator[list[MoveCall]]:
    """The moves that lead calls from where they are opened to their step and status, one each at a time."""
    paths = [_path(call, clock) for call in calls]
    while moves := [move for path in paths if (move := next(path, None)) is not None]:
        yield moves


def _path(call: Call, clock: Clock) -> Iterator[MoveCall]:
    at = _opened_as(call)
    left = None if call.expires_at is None else max(0, call.expires_at - clock()) / 1e6

    def move(to: CallStatus, expires_in: float | None = None) -> MoveCall:
        nonlocal at
        moved = MoveCall(call.call_id, to, frozenset((at,)), expires_in=expires_in)
        at = to
        return moved

    for _ in range(call.step - 1):
        yield move("pending")
        yield move("interrupted")
    if call.status == "expired":
        yield move("interrupted" if call.step else "executing", expires_in=0)
    if call.status == "detached":
        yield move("executing")
    if call.status != at or left is not None:
        yield move(call.status, expires_in=left)


def _portions(ops: Iterable[Op]) -> Iterator[list[Op]]:
    some: list[Op] = []
    size = 0
    for op in ops:
        length = len(op.data) if isinstance(op, Append | PutRecord | OpenCall) else 0
        if some and (len(some) >= _COMMIT_OPS or size + length > _COMMIT_BYTES):
            yield some
            some, size = [], 0
        some.append(op)
        size += length
    if some:
        yield some
