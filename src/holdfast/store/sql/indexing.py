"""Search is indexed after the commits: when somebody searches, or in a pause."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from holdfast.errors import StoreError
from holdfast.store.sql.database import Row

CONVERSATIONS_A_SLICE = 32
IN_A_PAUSE_OF = 1.0
AT_LATEST = 10.0

Keep = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class TextIndex(ABC):
    """The words of events' texts. A conversation with texts that are not indexed yet is marked by its commits."""

    async def settle(self, *, owner: str | None = None, pks: Sequence[int] | None = None) -> None:
        """Index all that is marked now, of everybody or of some."""
        after, full = 0, True
        while full:
            marked = await self._marked(owner, pks, after)
            full = len(marked) == CONVERSATIONS_A_SLICE
            # What is committed while we work is for the next time.
            goals = {row[0]: row[3] for row in marked}
            while behind := [row for row in marked if row[2] <= goals[row[0]]]:
                # While the server writes one half, the words of the other are made here.
                await asyncio.gather(*(self._index(half) for half in (behind[::2], behind[1::2]) if half))
                marked = await self._marked(owner, list(goals), 0)
            after = max(goals, default=0)

    @abstractmethod
    async def _marked(self, owner: str | None, pks: Sequence[int] | None, after: int) -> list[Row]:
        """
        The next marked conversations above ``after``, at most ``CONVERSATIONS_A_SLICE``.

        Each is its number, its owner, the first seq that is not indexed, its last seq, and how many
        redactions it had.
        """

    @abstractmethod
    async def _index(self, marked: Sequence[Row]) -> None:
        """Index a slice of each, unless somebody else did or one of its events was redacted."""


class Background:
    """
    Indexes what this process commits, in a pause if there is one: whoever searches first does not wait.

    ``unindexed`` collects the conversations that got texts.
    """

    def __init__(self, index: TextIndex, unindexed: set[int], keep: Keep) -> None:
        self._index = index
        self._unindexed = unindexed
        self._keep = keep
        self._task: asyncio.Task[None] | None = None
        self._stirred = 0.0

    def stir(self) -> None:
        """Note that something was committed just now."""
        self._stirred = asyncio.get_running_loop().time()
        if self._unindexed and (self._task is None or self._task.done()):
            self._task = self._keep(self._run())

    def stop(self) -> None:
        """Leave the rest to whoever searches."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        since = loop.time()
        while self._unindexed:
            await asyncio.sleep(IN_A_PAUSE_OF)
            now = loop.time()
            if now - self._stirred >= IN_A_PAUSE_OF or now - since >= AT_LATEST:
                pks = list(self._unindexed)
                self._unindexed.clear()
                # What fails now is still marked, and is indexed when somebody searches.
                with contextlib.suppress(StoreError):
                    await self._index.settle(pks=pks)
                since = now
