"""
Adding to a conversation's chain: the store itself picks the winner of each number.

Index entries are written first, then the entry, under the next number, if nobody has it yet. Who
loses reads the entry that won, decides again, and tries the number after it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError, StoreError, StoreUnavailable
from holdfast.ids import ConversationKey
from holdfast.model.records import Header
from holdfast.store.objects import names
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.heads import Heads, Slot, Stamp
from holdfast.store.objects.index import changed_marks, mark_path
from holdfast.store.objects.names import Place
from holdfast.store.objects.packing import encode
from holdfast.store.objects.roots import Absent, Root, decode_root
from holdfast.store.objects.rows import CallRow, header_fields
from holdfast.store.objects.segments import Gone
from holdfast.store.objects.state import Birth, Entry, State, decode_entry, fold

T = TypeVar("T")

_BEHIND_AFTER = 3
_PLEASE_AFTER = 8
_PLEASE_AHEAD = 16
_POLITE = 8
_LONGEST_PAUSE = 2.0


class Draft(msgspec.Struct):
    """What an entry says, before it has a number. ``index`` and ``unindex`` are entries of tags."""

    header: Header
    commits: int | None = None
    calls: tuple[CallRow, ...] = ()
    ended: tuple[str, ...] = ()
    opened: int = 0
    rows: dict[bytes, bytes | None] = msgspec.field(default_factory=dict)
    redacted: int = 0
    dirty: bool = False
    closed: bool = False
    index: list[str] = msgspec.field(default_factory=list)
    unindex: list[str] = msgspec.field(default_factory=list)


class Start(msgspec.Struct, frozen=True):
    """A new incarnation: its state before the first entry, and what its root must say."""

    state: State
    root: Root
    block: str | None


class Step(msgspec.Struct, Generic[T]):
    """What somebody decided to do with a conversation: an entry to add, if any, and the answer."""

    result: T
    draft: Draft | None = None
    start: Start | None = None


class Attempt:
    """One call's way into the chain. ``tag`` gives the same tag for the same thing at each try."""

    def __init__(self) -> None:
        self.id = secrets.token_bytes(8)
        self.losses = 0
        self.first = 0
        self.begun = time.monotonic()
        self.written: dict[str, Stamp] = {}
        self.kept: set[str] = set()
        self._tags: dict[str, str] = {}

    def tag(self, what: str) -> str:
        return self._tags.setdefault(what, secrets.token_hex(4))


Decide = Callable[[State | Absent, Attempt], Awaitable[Step[T]]]


class Chain:
    """The one way to change a conversation."""

    def __init__(
        self,
        bucket: Bucket,
        heads: Heads,
        keep: Callable[[Coroutine[Any, Any, None]], object],
        grown: Callable[[Slot, State], None],
    ) -> None:
        self._bucket = bucket
        self._heads = heads
        self._keep = keep
        self._grown = grown

    async def extend(self, key: ConversationKey, decide: Decide[T]) -> T:
        """
        Add an entry, as often as it takes to be the next one.

        ``decide`` may be given a state that is some seconds old; only if there is a newer one its
        refusal, or an answer without an entry, does not count.
        """
        slot = self._heads.slot(names.folder(key))
        async with slot.lock:
            attempt = Attempt()
            if time.monotonic() < slot.polite_until:
                await asyncio.sleep(slot.pause)
            try:
                result = await self._extend(slot, key, decide, attempt)
            except StoreUnavailable:
                # It may have been applied, and then its index entries are needed.
                raise
            except HoldfastError:
                self._drop(attempt.written)
                raise
            self._drop(path for path in attempt.written if path not in attempt.kept)
            return result

    async def _extend(self, slot: Slot, key: ConversationKey, decide: Decide[T], attempt: Attempt) -> T:
        started = self._heads.stamp()
        while True:
            head, looked = await self._heads.trusted(slot.folder)
            if isinstance(head, State) and head.key != key:
                raise StoreError(f"{key} and {head.key} have the same hash; choose another id")
            current = looked.boot >= started.boot
            try:
                step = await decide(head, attempt)
            except Gone:
                self._heads.forget(slot)
                continue
            except HoldfastError:
                if current:
                    raise
                await self._heads.fresh(slot.folder)
                continue
            if step.draft is not None:
                if await self._write(slot, head, step, attempt, looked):
                    return step.result
            elif current:
                return step.result
            else:
                await self._heads.fresh(slot.folder)

    async def _write(
        self, slot: Slot, head: State | Absent, step: Step[Any], attempt: Attempt, looked: Stamp
    ) -> bool:
        draft, start = step.draft, step.start
        assert draft is not None
        before = start.state if start else head
        assert isinstance(before, State)
        entry, after = _entry(before, draft, attempt)
        new = {mark_path(after.key, kind, mark) for kind, mark in entry.marks.items() if mark}
        old = {
            mark_path(before.key, kind, before.marks[kind]) for kind in entry.marks if kind in before.marks
        }
        new.update(draft.index)
        old.update(draft.unindex)
        if unwritten := new - attempt.written.keys():
            await self._index(unwritten, attempt)
        if self._heads.age(looked) > self._heads.trust:
            # What was read to decide took long. It still holds if nobody has written since.
            now, looked = await self._heads.trusted(slot.folder)
            if not _same(now, head):
                return False
        sent = self._heads.stamp()
        if start is not None:
            won = await self._begin(slot.folder, start, entry)
        else:
            won = await self._follow(slot, before, entry, attempt, looked)
        if won and self._heads.age(looked) > self._heads.trust:
            # We were stopped for so long that our number may have been collected and free again.
            won = await self._stands(slot, before.place, entry)
        elif won:
            self._heads.advance(slot, after, sent)
        if not won:
            return False
        attempt.kept = new
        if any(self._heads.age(attempt.written[path]) > self._heads.trust for path in new):
            await self._index(new, attempt)
        self._drop(old)
        self._grown(slot, after)
        return True

    async def _index(self, paths: set[str], attempt: Attempt) -> None:
        attempt.written.update(dict.fromkeys(paths, self._heads.stamp()))
        await asyncio.gather(*(self._bucket.put(path, b"") for path in paths))

    def _drop(self, paths: Iterable[str]) -> None:
        if dropped := list(paths):
            self._keep(self._bucket.delete(dropped))

    async def _follow(self, slot: Slot, before: State, entry: Entry, attempt: Attempt, looked: Stamp) -> bool:
        """Write the next entry of an incarnation; False if another one is there."""
        path = before.place.log(entry.n)
        if await self._bucket.create(path, encode(entry)):
            return True
        body = await self._bucket.get(path)
        if not body:
            self._heads.forget(slot)
            return False
        there = decode_entry(body)
        if there.id == entry.id:
            return True
        if self._heads.age(looked) > self._heads.trust:
            # It may be a ghost.
            self._heads.forget(slot)
            return False
        self._heads.advance(slot, fold(before, there), looked)
        if there.please:
            slot.pause = min(there.please, _LONGEST_PAUSE)
            slot.polite_until = time.monotonic() + _POLITE * slot.pause
        attempt.losses += 1
        attempt.first = attempt.first or entry.n
        if attempt.losses % _PLEASE_AFTER == 0:
            await self._please(before.place, entry.n, attempt)
        if attempt.losses >= _BEHIND_AFTER:
            # The other one may be many entries ahead by now.
            await self._heads.fresh(slot.folder)
        return False

    async def _please(self, place: Place, n: int, attempt: Attempt) -> None:
        """
        Ask a writer that leaves nobody in to let others write.

        Who has just won needs one request for the next number, who has lost needs more: it would
        lose for ever. The other one finds this entry when it gets there, and makes pauses.
        """
        needed = 2 * (time.monotonic() - attempt.begun) / attempt.losses
        written_meanwhile = (n - attempt.first) / attempt.losses
        ahead = n + _PLEASE_AHEAD + round(2 * written_meanwhile)
        please = Entry(secrets.token_bytes(8), ahead, please=needed)
        await self._bucket.create(place.log(ahead), encode(please))

    async def _begin(self, folder: str, start: Start, entry: Entry) -> bool:
        """Write the first entry of an incarnation, and make it the current one; False if another one is."""
        place, path = start.state.place, names.root(folder, start.state.root)
        await self._bucket.put(place.log(entry.n), encode(entry))
        if start.block is None or await self._blocked(folder, start):
            if await self._bucket.create(path, encode(start.root)):
                return True
            body = await self._bucket.get(path)
            if body is not None and decode_root(body).uid == place.uid:
                return True
        self._drop([place.log(entry.n)])
        return False

    async def _blocked(self, folder: str, start: Start) -> bool:
        """Take a name away from those whose clock is behind; False if one of them has used it."""
        assert start.block is not None
        path = names.root(folder, start.block)
        if await self._bucket.create(path, encode(Root(start.root.incarnation - 1))):
            return True
        body = await self._bucket.get(path)
        return body is not None and not decode_root(body).uid

    async def _stands(self, slot: Slot, place: Place, entry: Entry) -> bool:
        """
        Whether an entry that we wrote is part of the chain, or a ghost below its newest checkpoint.

        Raises:
            StoreUnavailable: It was so long ago that nobody can tell.
        """
        self._heads.forget(slot)
        found = await self._heads.fresh(slot.folder)
        if isinstance(found, Absent) or found.place != place:
            if entry.birth is not None:
                # Otherwise it could become the current one when the one that won is gone.
                await self._bucket.put(place.closed, b"")
            self._drop([place.log(entry.n)])
            return False
        if entry.n > found.base:
            at = entry.n - found.base - 1
            return at < len(found.tail) and found.tail[at].id == entry.id
        back = found.base - entry.n
        if back >= len(found.recent):
            raise StoreUnavailable(
                f"{found.key}: this process was stopped in the middle of a write, and can't tell any more "
                "whether it was applied; repeat it with its token"
            )
        if found.recent[-1 - back] != entry.id:
            self._drop([place.log(entry.n)])
            return False
        return True


def _same(now: State | Absent, before: State | Absent) -> bool:
    if isinstance(now, State) and isinstance(before, State):
        return (now.place, now.n) == (before.place, before.n)
    return now == before


def _entry(before: State, draft: Draft, attempt: Attempt) -> tuple[Entry, State]:
    """The next entry, with the marks that the state after it needs, and that state."""
    birth = None
    if before.n == 0:
        key, fields = before.key, header_fields(before.header)
        birth = Birth(key.owner, key.id, before.incarnation, before.root, fields)
    entry = Entry(
        id=attempt.id,
        n=before.n + 1,
        birth=birth,
        commits=draft.commits,
        header=header_fields(draft.header, before.header),
        calls=draft.calls,
        ended=draft.ended,
        opened=draft.opened,
        rows=draft.rows,
        redacted=draft.redacted,
        dirty=draft.dirty,
        closed=draft.closed,
    )
    after = fold(before, entry)
    if not draft.closed and (marks := changed_marks(after, attempt.tag)):
        entry = replace(entry, marks=marks)
        after = fold(before, entry)
    return entry, after
