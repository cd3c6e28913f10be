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
from collections.abc import AsyncIterator, Callable, Collection, Sequence

import msgspec

from holdfast.clock import Clock, system_clock
from holdfast.copying.contents import StoreContents, digest, finish, is_unfinished, write
from holdfast.errors import HoldfastError, InvalidInput, NotFound, StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import Header
from holdfast.store import Store

__all__ = ["Copied", "Problem", "Progress", "conversations", "copy"]

_PAGE = 500
_TRIES = 3


class Different(HoldfastError):
    """A conversation is not what it should be, or is where another one should be."""


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
    waiting = [header async for header in conversations(source, owners)]
    run = _Run(source, target, resume, clock, waiting, on_progress)
    run.report()
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(at_once, len(waiting))):
                workers.create_task(run.work())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return Copied(run.copied, run.copied_events, run.unchanged, tuple(run.problems))


async def conversations(store: Store, owners: Collection[str] | None = None) -> AsyncIterator[Header]:
    """The conversations of these owners, or of all, without skipping any."""
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
            contents = await StoreContents.of(self._source, key)
            await write(self._target, contents, self._clock)
            if await _digest(self._source, key) == await _digest(self._target, key):
                await finish(self._target, contents.header, self._clock)
                self.copied += 1
                self.copied_events += contents.header.last_seq
                return
            await self._target.delete(key)
            if (await self._source.header(key)).revision == contents.header.revision:
                raise Different(f"{key} arrived with another content than it was sent with")
        raise Different(f"{key} was written to all the time while it was copied")

    async def _make_room(self, key: ConversationKey) -> bool:
        """Whether the conversation is to be written; False if all of it is there."""
        try:
            there = await self._target.header(key)
        except NotFound:
            return True
        unfinished = await is_unfinished(self._target, key)
        if not self._resume:
            hint = "what an interrupted copy left; copy again with resume" if unfinished else "left as it is"
            raise Different(f"{key} is in {self._target.url} already: {hint}")
        if unfinished:
            await self._target.delete(key, when=there.revision)
            return True
        if await _digest(self._source, key) != await _digest(self._target, key):
            raise Different(f"{key} is in {self._target.url} already, with another content; left as it is")
        return False


async def _digest(store: Store, key: ConversationKey) -> str:
    return await digest(await StoreContents.of(store, key))
