"""
The writer thread: it commits whatever is queued as one group.

One transaction, one sync and one wake-up of the event loop serve all of them. A job that is
refused leaves no trace; one that fails in the middle takes the group's transaction with it, and
each of the others is then run on its own.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from holdfast.errors import HoldfastError
from holdfast.ids import ConversationKey
from holdfast.store.sqlite.batch import Batch
from holdfast.store.sqlite.bell import Bell
from holdfast.store.sqlite.faults import translate
from holdfast.store.sqlite.index import settle_slice

T = TypeVar("T")
Job = Callable[[Batch], Any]

MAX_GROUP = 256
MAX_GROUP_BYTES = 8 << 20
SETTLE_AFTER_SECONDS = 0.2
SETTLE_AFTER_EVENTS = 1000


class _Request:
    __slots__ = ("alone", "future", "job", "size")

    def __init__(self, job: Job, future: asyncio.Future[Any], size: int, alone: bool) -> None:
        self.job, self.future, self.size, self.alone = job, future, size, alone


class Writer:
    """Runs jobs on the one connection that writes, in order, grouped into transactions."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        batch: Batch,
        url: str,
        loop: asyncio.AbstractEventLoop,
        on_change: Callable[[Iterable[ConversationKey]], None],
    ) -> None:
        self._connection = connection
        self._batch = batch
        self._url = url
        self._loop = loop
        self._on_change = on_change
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._done: deque[tuple[list[_Request], list[Any], set[ConversationKey]]] = deque()
        self._bell = Bell(loop, self._answer_all)
        self._thread = threading.Thread(target=self._run, name="holdfast-sqlite-writer", daemon=True)
        self._thread.start()

    async def run(self, job: Callable[[Batch], T], *, size: int = 0, alone: bool = False) -> T:
        """
        Run a job and wait until its transaction is durable.

        The job may raise a ``HoldfastError`` before it writes. With ``alone`` it runs outside
        any transaction. Cancelling the wait does not stop the job.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Request(job, future, size, alone))
        return await future

    async def close(self) -> None:
        """Wait for what is queued, then end the thread."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._bell.close()

    def _run(self) -> None:
        more_to_settle, held = True, None
        while True:
            wait = SETTLE_AFTER_SECONDS if more_to_settle or self._batch.unsettled else None
            try:
                first = held or self._queue.get(timeout=wait)
            except queue.Empty:
                more_to_settle = self._settle_some()
                continue
            if first is None:
                return
            group, held, stop = self._gather(first)
            outcomes = (
                self._alone(first.job) if first.alone else self._together([request.job for request in group])
            )
            self._reply(group, outcomes)
            if stop:
                return
            if self._batch.unsettled >= SETTLE_AFTER_EVENTS:
                more_to_settle = self._settle_some()

    def _gather(self, first: _Request) -> tuple[list[_Request], _Request | None, bool]:
        group, size = [first], first.size
        while not first.alone and len(group) < MAX_GROUP and size < MAX_GROUP_BYTES and self._queue.qsize():
            request = self._queue.get()
            if request is None:
                return group, None, True
            if request.alone:
                return group, request, False
            group.append(request)
            size += request.size
        return group, None, False

    def _together(self, jobs: list[Job]) -> list[Any]:
        batch = self._batch
        try:
            batch.begin()
        except sqlite3.Error as exc:
            batch.rollback()
            return [translate(exc, self._url)] * len(jobs)
        try:
            outcomes = [self._attempt(job) for job in jobs]
            batch.commit()
        except Exception as exc:
            batch.rollback()
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._together([job])]
            return [translate(exc, self._url) if isinstance(exc, sqlite3.Error) else exc]
        return outcomes

    def _attempt(self, job: Job) -> Any:
        before = self._batch.writes
        try:
            return job(self._batch)
        except HoldfastError as exc:
            if self._batch.writes != before:
                raise
            return exc

    def _alone(self, job: Job) -> list[Any]:
        try:
            return [job(self._batch)]
        except sqlite3.Error as exc:
            return [translate(exc, self._url)]
        except Exception as exc:
            return [exc]

    def _settle_some(self) -> bool:
        """Settle a slice in a transaction of its own; a failure is left for the next try."""
        [outcome] = self._together([settle_slice])
        if isinstance(outcome, BaseException):
            self._batch.unsettled = 0
            return False
        return bool(outcome)

    def _reply(self, group: list[_Request], outcomes: list[Any]) -> None:
        changed, self._batch.changed = self._batch.changed, set()
        self._done.append((group, outcomes, changed))
        self._bell.ring()

    def _answer_all(self) -> None:
        while self._done:
            self._answer(*self._done.popleft())

    def _answer(self, group: list[_Request], outcomes: list[Any], changed: set[ConversationKey]) -> None:
        for request, outcome in zip(group, outcomes, strict=True):
            if request.future.done():
                continue
            if isinstance(outcome, BaseException):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)
        if changed:
            self._on_change(changed)
