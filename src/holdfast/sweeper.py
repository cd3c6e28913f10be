"""
Expiries that fire although whoever set them is dead.

The timers live in the store. A sweeper only looks which are over and closes those calls; any number of
processes may run one, and each expiry fires once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from holdfast.calls import expire
from holdfast.errors import StoreClosed, StoreError
from holdfast.model.records import Call
from holdfast.store import Store
from holdfast.store.ops import check_duration

__all__ = ["Sweeper"]

_PAGE = 100

_log = logging.getLogger("holdfast.sweeper")


class Sweeper:
    """
    Closes calls whose time is over, again and again while it is entered.

    Args:
        store: An open store.
        every: Seconds between two looks.
        on_expired: Called with each call that this sweeper closed, after its commit.
        pause: What waits between two looks; for tests.

    Raises:
        InvalidOp: ``every`` is not above 0.
    """

    def __init__(
        self,
        store: Store,
        *,
        every: float = 1.0,
        on_expired: Callable[[Call], None] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        check_duration("every", every)
        self._store, self._every, self._on_expired, self._pause = store, every, on_expired, pause
        self._task: asyncio.Task[None] | None = None

    async def sweep(self) -> list[Call]:
        """
        Close every call whose time is over now; those that this one closed, as they were before.

        Raises:
            StoreError: The store failed. What was closed stays closed.
        """
        closed: list[Call] = []
        # Calls that somebody else closes meanwhile, or that a clock which went back makes wait again, leave
        # the list by themselves; looking again only after a success keeps this from turning in circles.
        while due := await self._store.due(limit=_PAGE):
            won = [call for call in due if await expire(self._store, call)]
            closed += won
            for call in won:
                self._tell(call)
            if not won or len(due) < _PAGE:
                break
        return closed

    async def run(self) -> None:
        """
        Sweep until cancelled or until the store is closed. A store that fails is tried again.

        Raises:
            StoreClosed: The store was closed under it.
        """
        while True:
            try:
                await self.sweep()
            except StoreClosed:
                raise
            except StoreError:
                _log.exception("expiries could not be swept; trying again in %s seconds", self._every)
            await self._pause(self._every)

    async def __aenter__(self) -> Self:
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name="holdfast-sweeper")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _tell(self, call: Call) -> None:
        if self._on_expired is None:
            return
        try:
            self._on_expired(call)
        except Exception:
            _log.exception("on_expired failed for call %r of %s", call.call_id, call.key)
