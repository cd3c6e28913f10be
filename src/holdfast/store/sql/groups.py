"""
Commits that wait are written together.

Whatever is there when a writer becomes free is one group; nothing waits for others to come. A group
has at most one commit of a conversation, because each is decided by what was there before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.errors import StoreUnavailable
from holdfast.ids import ConversationKey
from holdfast.model.records import Commit
from holdfast.store.change import Change

MAX_COMMITS = 64
MAX_BYTES = 1 << 20
MANY = MAX_COMMITS // 2
FEW = 16
PATIENCE_SECONDS = 0.01

Outcome = Commit | Exception
Write = Callable[[list[Change]], Awaitable[Sequence[Outcome]]]

M = TypeVar("M")
R = TypeVar("R")


async def each_alone_if_not_together(
    write: Callable[[Sequence[M]], Awaitable[Sequence[R]]], members: Sequence[M]
) -> list[R | Exception]:
    """
    Write members in one transaction; if that fails, each in its own, so that only the one at fault fails.

    ``write`` has changed nothing if it raises, unless that is ``StoreUnavailable``: then nobody knows,
    and it is not tried again.
    """
    try:
        return [*await write(members)]
    except StoreUnavailable as exc:
        return [exc] * len(members)
    except Exception as exc:
        if len(members) == 1:
            return [exc]
        alone = [await each_alone_if_not_together(write, [member]) for member in members]
        return [result for [result] in alone]


class _Waiting:
    __slots__ = ("change", "future")

    def __init__(self, change: Change, future: asyncio.Future[Commit]) -> None:
        self.change, self.future = change, future

    def answer(self, outcome: Outcome) -> None:
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class Groups:
    """
    Queues commits and writes them in groups, several groups at a time.

    ``write`` gives one outcome for each change, and leaves none half written.
    """

    def __init__(self, write: Write, *, writers: int) -> None:
        self._write = write
        self._writers = writers
        # A conversation that a writer is busy with has a queue, which may be empty.
        self._queues: dict[ConversationKey, deque[_Waiting]] = {}
        self._ready: dict[ConversationKey, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._busy = 0
        self._fresh = 0
        self._crowded = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def commit(self, change: Change) -> Commit:
        """Wait until the change is written. Cancelling the wait does not cancel the others' group."""
        if not self._busy and not self._crowded:
            return await self._commit_alone(change)
        waiting = _Waiting(change, asyncio.get_running_loop().create_future())
        queue = self._queues.get(change.key)
        if queue is None:
            self._queues[change.key] = deque((waiting,))
            self._ready[change.key] = None
        else:
            queue.append(waiting)
        self._start()
        return await waiting.future

    async def close(self) -> None:
        """Wait for what was accepted."""
        await self._idle.wait()

    async def _commit_alone(self, change: Change) -> Commit:
        """Write a commit without a detour, if there is none, and was none, to write it together with."""
        self._queues[change.key] = deque()
        self._enter()
        try:
            [outcome] = await self._write([change])
        finally:
            self._next(change.key)
            self._leave()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _start(self) -> None:
        """
        Have a writer for what is ready.

        While one is busy, another starts only for many commits, or for those that it keeps waiting:
        a few more at its next turn cost less than a group of their own.
        """
        if not self._ready or self._busy >= self._writers:
            return
        if not self._busy or len(self._ready) >= MANY:
            self._start_writer()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._start_late)

    def _start_late(self) -> None:
        self._timer = None
        if self._ready and self._busy < self._writers:
            self._start_writer()

    def _start_writer(self) -> None:
        self._enter()
        self._fresh += 1
        task = asyncio.get_running_loop().create_task(self._run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _enter(self) -> None:
        self._busy += 1
        self._idle.clear()

    def _leave(self) -> None:
        # A writer counts as busy up to the moment in which it finds nothing to do, not until its task
        # is cleaned up: a commit that comes in between would wait for nobody.
        self._busy -= 1
        self._start()
        if not self._busy:
            self._idle.set()

    async def _run(self) -> None:
        self._fresh -= 1
        try:
            while group := self._take():
                await self._write_group(group)
        finally:
            self._leave()

    async def _write_group(self, group: list[_Waiting]) -> None:
        lost = StoreUnavailable("the commit was given up before it was answered")
        outcomes: Sequence[Outcome] = [lost] * len(group)
        try:
            outcomes = await self._write([waiting.change for waiting in group])
        except Exception as exc:
            outcomes = [exc] * len(group)
        finally:
            self._answer(group, outcomes)

    def _take(self) -> list[_Waiting]:
        """The next group: the oldest commit of each conversation that no writer is busy with."""
        group: list[_Waiting] = []
        size = 0
        free = self._writers - self._busy
        # What is ready is shared with writers that could start, and with those that just did.
        hands = free + self._fresh + 1
        most = min(MAX_COMMITS, max(FEW, -(-len(self._ready) // hands)))
        while self._ready and len(group) < most and size < MAX_BYTES:
            key = next(iter(self._ready))
            del self._ready[key]
            queue = self._queues[key]
            while queue:
                waiting = queue.popleft()
                if not waiting.future.cancelled():
                    group.append(waiting)
                    size += waiting.change.size
                    break
            else:
                del self._queues[key]
        if group:
            self._crowded = len(group) > 1
            if self._ready and free:
                self._start_writer()
        return group

    def _answer(self, group: list[_Waiting], outcomes: Sequence[Outcome]) -> None:
        for waiting, outcome in zip(group, outcomes, strict=True):
            self._next(waiting.change.key)
            waiting.answer(outcome)

    def _next(self, key: ConversationKey) -> None:
        """Let the next commit of a conversation be written: nobody is busy with it any more."""
        if self._queues[key]:
            self._ready[key] = None
        else:
            del self._queues[key]
