"""
Copying conversations from one store to another.

A conversation is written as of the times it had, read back, and compared by hash. One that is being
copied carries a record that says so, until all of it is there: whoever goes on after an interruption
takes away what is unfinished and leaves what is whole.

Not copied: leases, tokens of commits, and the numbers that a store gives (revisions, fences, the
conversation that another was forked from). Nobody should write to a conversation while it is copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby

import msgspec

from holdfast.clock import Clock, system_clock
from holdfast.errors import HoldfastError, InvalidInput, NotFound, StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, Event, Header, Record
from holdfast.store import ABSENT, Append, DropRecords, MoveCall, Op, OpenCall, PutRecord, SetHeader, Store
from holdfast.store.ops import Tag, Wake

__all__ = ["Copied", "Problem", "Progress", "copy"]

UNFINISHED = "holdfast.copy"
"""The collection of a record that a conversation has while it is being copied."""

_PAGE = 500
_COMMIT_OPS = 500
_COMMIT_BYTES = 4 << 20
_TRIES = 3

_hashed = msgspec.msgpack.Encoder(order="deterministic").encode


class Progress(msgspec.Struct, frozen=True):
    """How far a copy is. The totals are what there was when it began."""

    conversations: int
    all_conversations: int
    events: int
    all_events: int


class Problem(msgspec.Struct, frozen=True):
    """A conversation that was not copied, and why."""

    key: ConversationKey
    reason: str


class Copied(msgspec.Struct, frozen=True):
    """What a copy did. Conversations that were there already, and the same, are in ``unchanged``."""

    conversations: int
    events: int
    unchanged: int
    problems: tuple[Problem, ...]


async def copy(
    source: Store,
    target: Store,
    *,
    owners: Collection[str] | None = None,
    resume: bool = False,
    at_once: int = 32,
    on_progress: Callable[[Progress], None] | None = None,
    clock: Clock = system_clock,
) -> Copied:
    """
    Copy conversations into another store, and compare what arrived with what was sent.

    Both stores are open. A conversation that can't be copied is a ``Problem`` and stops no other.

    Args:
        owners: Whose conversations; None is everybody's.
        resume: Go on with a copy that was interrupted: what is there and the same is left alone,
            what is unfinished is made anew. Without it, a conversation that is there is a problem.
        at_once: How many conversations are copied at the same time.
        on_progress: Called after each conversation.
        clock: What tells how long it is until something expires.

    Raises:
        InvalidInput: The stores are the same, or ``at_once`` is not positive.
        StoreError: One of the stores failed. Copy again with ``resume``.
    """
    if source is target or source.url == target.url != "memory://":
        raise InvalidInput(f"{target.url} can't be copied to itself")
    if at_once < 1:
        raise InvalidInput(f"at_once must be at least 1, not {at_once}")
    waiting = [header async for header in _conversations(source, owners)]
    run = _Run(source, target, resume, clock, waiting, on_progress)
    run.report()
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(at_once, len(waiting))):
                workers.create_task(run.work())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return Copied(run.copied, run.copied_events, run.unchanged, tuple(run.problems))


async def _conversations(store: Store, owners: Collection[str] | None) -> AsyncIterator[Header]:
    async for owner in _owners(store, owners):
        before = None
        while page := await store.headers(owner, order="created", before=before, limit=_PAGE):
            for header in page:
                yield header
            before = (page[-1].created_at, page[-1].key.id)


async def _owners(store: Store, owners: Collection[str] | None) -> AsyncIterator[str]:
    if owners is not None:
        for owner in dict.fromkeys(owners):
            yield owner
        return
    after = ""
    while page := await store.owners(after=after, limit=_PAGE):
        for owner in page:
            yield owner
        after = page[-1]


class _Run:
    """A copy on its way: what waits, and what was done."""

    def __init__(
        self,
        source: Store,
        target: Store,
        resume: bool,
        clock: Clock,
        waiting: Sequence[Header],
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.copied = self.copied_events = self.unchanged = 0
        self.problems: list[Problem] = []
        self._source, self._target, self._resume, self._clock = source, target, resume, clock
        self._waiting = iter(waiting)
        self._on_progress = on_progress
        self._all = (len(waiting), sum(header.last_seq for header in waiting))
        self._done = self._done_events = 0

    def report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(self._done, self._all[0], self._done_events, self._all[1]))

    async def work(self) -> None:
        for header in self._waiting:
            try:
                await self._copy(header.key)
            except StoreError:
                raise
            except NotFound:
                # Deleted while others were copied: there is nothing left to copy.
                self._all = (self._all[0] - 1, self._all[1] - header.last_seq)
                continue
            except HoldfastError as exc:
                self.problems.append(Problem(header.key, str(exc)))
            self._done += 1
            self._done_events += header.last_seq
            self.report()

    async def _copy(self, key: ConversationKey) -> None:
        if not await self._make_room(key):
            self.unchanged += 1
            return
        for _ in range(_TRIES):
            header = await self._source.header(key)
            await _Conversation(self._source, self._target, header, self._clock).write()
            sent, arrived = await _digest(self._source, key), await _digest(self._target, key)
            if sent == arrived:
                await self._finish(header)
                self.copied += 1
                self.copied_events += header.last_seq
                return
            await self._target.delete(key)
            if (await self._source.header(key)).revision == header.revision:
                raise _Different(f"{key} arrived with another content than it was sent with")
        raise _Different(f"{key} was written to all the time while it was copied")

    async def _finish(self, header: Header) -> None:
        ops: list[Op] = [DropRecords(UNFINISHED, prefix="")]
        if header.wake_at is not None:
            ops.append(Wake(max(0, header.wake_at - self._clock()) / 1e6))
        await self._target.commit(header.key, ops, at=header.activity)

    async def _make_room(self, key: ConversationKey) -> bool:
        """Whether the conversation is to be written; False if all of it is there."""
        try:
            there = await self._target.header(key)
        except NotFound:
            return True
        unfinished = await self._target.records(key, UNFINISHED)
        if not self._resume:
            hint = "what an interrupted copy left; copy again with resume" if unfinished else "left as it is"
            raise _Different(f"{key} is in {self._target.url} already: {hint}")
        if unfinished:
            await self._target.delete(key, when=there.revision)
            return True
        if await _digest(self._source, key) != await _digest(self._target, key):
            raise _Different(f"{key} is in {self._target.url} already, with another content; left as it is")
        return False


class _Different(HoldfastError):
    """A conversation is not what it should be."""


class _Conversation:
    """One conversation being written."""

    def __init__(self, source: Store, target: Store, header: Header, clock: Clock) -> None:
        self._source, self._target, self._header, self._clock = source, target, header, clock
        self._key = header.key

    async def write(self) -> None:
        header = self._header
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
        await self._target.commit(
            self._key, [PutRecord(UNFINISHED, "since", b"")], create=create, at=header.created_at
        )
        await self._write_calls(await self._source.calls(self._key))
        async for page in _pages(self._source, self._key, header.last_seq):
            texts = await self._source.texts(self._key, after=page[0].seq - 1, before=page[-1].seq + 1)
            for at, events in groupby(page, key=lambda event: event.at):
                await self._commit((Append(e.type, e.data, e.id, texts.get(e.seq)) for e in events), at)
        inventory = await self._source.inventory(self._key)
        for collection in inventory.collections:
            async for records in _records(self._source, self._key, collection):
                await self._commit((PutRecord(collection, r.key, r.data) for r in records), header.activity)
        await self._commit((Tag(*tag) for tag in inventory.tags), header.activity)
        # The last thing that moved its activity may be gone.
        await self._commit([PutRecord(UNFINISHED, "until", b"")], header.activity)

    async def _commit(self, ops: Iterable[Op], at: int) -> None:
        for some in _portions(ops):
            await self._target.commit(self._key, some, at=at)

    async def _write_calls(self, calls: Sequence[Call]) -> None:
        for at, some in groupby(calls, key=lambda call: call.opened_at):
            await self._commit((_opening(call) for call in some), at)
        paths = [list(_path(call, self._clock)) for call in calls]
        for round in range(max(map(len, paths), default=0)):
            moves = (path[round] for path in paths if round < len(path))
            await self._commit(moves, self._header.created_at)


def _opening(call: Call) -> OpenCall:
    status = "interrupted" if call.step else "completed" if call.status == "completed" else "pending"
    return OpenCall(call.call_id, call.name, status, call.executor, call.data)  # type: ignore[arg-type]


def _path(call: Call, clock: Clock) -> Iterator[MoveCall]:
    """The moves that lead a call from where it is opened to its step and status."""
    at = "interrupted" if call.step else "pending"
    left = None if call.expires_at is None else max(0, call.expires_at - clock()) / 1e6

    def move(to: str, expires_in: float | None = None) -> MoveCall:
        nonlocal at
        moved = MoveCall(call.call_id, to, frozenset((at,)), expires_in=expires_in)  # type: ignore[arg-type]
        at = to
        return moved

    for _ in range(call.step - 1):
        yield move("pending")
        yield move("interrupted")
    if call.status == "expired":
        yield move(at if call.step else "executing", expires_in=0)
    if call.status == "detached":
        yield move("executing")
    if (call.status != at or left is not None) and not (call.status == "completed" and not call.step):
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


async def _pages(store: Store, key: ConversationKey, last_seq: int) -> AsyncIterator[list[Event]]:
    for after in range(0, last_seq, _PAGE):
        if page := await store.events(key, after=after, before=min(after + _PAGE, last_seq) + 1):
            yield page


async def _records(store: Store, key: ConversationKey, collection: str) -> AsyncIterator[list[Record]]:
    after = None
    while page := await store.records(key, collection, after=after, limit=_PAGE):
        yield page
        after = page[-1].key


async def _digest(store: Store, key: ConversationKey) -> bytes:
    """A hash of all that is copied."""
    hash = blake2b(digest_size=32)
    header = await store.header(key)
    times = (header.created_at, header.activity)
    fields = (header.title, header.status, header.agent, header.metadata, header.settings, header.tail)
    hash.update(_hashed((header.last_seq, times, fields, header.takeovers)))
    async for page in _pages(store, key, header.last_seq):
        texts = await store.texts(key, after=page[0].seq - 1, before=page[-1].seq + 1)
        hash.update(_hashed([(e.seq, e.type, e.data, e.at, e.id, texts.get(e.seq)) for e in page]))
    for c in await store.calls(key):
        hash.update(_hashed((c.call_id, c.name, c.status, c.executor, c.step, c.data, c.opened_at)))
        hash.update(_hashed(c.expires_at is not None))
    inventory = await store.inventory(key)
    hash.update(_hashed(inventory.tags))
    for collection in inventory.collections:
        if collection != UNFINISHED:
            async for records in _records(store, key, collection):
                hash.update(_hashed([(collection, r.key, r.data) for r in records]))
    return hash.digest()
