"""
Commits that wait are written together.

Whatever is there when a writer becomes free is one group: there is no timer. A group has at most
one commit of a conversation, because each is decided by what was there before.
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


class Groups:
    """
    Queues commits and writes them in groups, several groups at a time.

    ``write`` gives one outcome for each change, and leaves none half written.
    """

    def __init__(self, write: Write, *, writers: int) -> None:
        self._write = write
        self._writers = writers
        self._queues: dict[ConversationKey, deque[_Waiting]] = {}
        self._ready: dict[ConversationKey, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = 0

    async def commit(self, change: Change) -> Commit:
        """Wait until the change is written. Cancelling the wait does not cancel the others' group."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(change, loop.create_future())
        queue = self._queues.get(change.key)
        if queue is None:
            self._queues[change.key] = deque((waiting,))
            self._ready[change.key] = None
        else:
            queue.append(waiting)
        if self._ready and self._busy < self._writers:
            self._busy += 1
            task = loop.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await waiting.future

    async def close(self) -> None:
        """Wait for what was accepted."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        # A writer counts as busy up to the moment in which it finds nothing to do, not until its task
        # is cleaned up: a commit that comes in between would wait for nobody.
        try:
            while group := self._take():
                await self._write_group(group)
        finally:
            self._busy -= 1

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
        while self._ready and len(group) < MAX_COMMITS and size < MAX_BYTES:
            key = next(iter(self._ready))
            del self._ready[key]
            queue = self._queues[key]
            while queue and queue[0].future.cancelled():
                queue.popleft()
            if not queue:
                del self._queues[key]
                continue
            group.append(queue[0])
            size += queue[0].change.size
        return group

    def _answer(self, group: list[_Waiting], outcomes: Sequence[Outcome]) -> None:
        for waiting, outcome in zip(group, outcomes, strict=True):
            key = waiting.change.key
            queue = self._queues[key]
            queue.popleft()
            if queue:
                self._ready[key] = None
            else:
                del self._queues[key]
            if waiting.future.done():
                continue
            if isinstance(outcome, Exception):
                waiting.future.set_exception(outcome)
            else:
                waiting.future.set_result(outcome)
