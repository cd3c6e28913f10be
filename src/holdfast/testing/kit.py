"""How the conformance suite gets at a store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from holdfast.clock import Clock
from holdfast.store import Store, connect


class StoreMaker(Protocol):
    """Anything that makes a store that is not open yet: a class, a function, a lambda."""

    def __call__(self, *, clock: Clock | None) -> Store: ...


class StoreKit:
    """
    Opens stores over the same data, any number of times, as several processes would.

    ``source`` is a URL or a callable that makes a store. Each kit must stand for an empty place:
    use a temporary path, or a name that is new for each test. ``scan`` gives every byte that the
    backend keeps, so that the suite can look for what should be gone; without it, or where
    ``limits.scrub`` is False, only rows are looked at.
    """

    def __init__(self, source: str | StoreMaker, *, scan: Callable[[], bytes] | None = None) -> None:
        self._source = source
        self.scan = scan

    def connect(self, *, clock: Clock | None = None) -> Store:
        """A store that is not open yet."""
        if isinstance(self._source, str):
            return connect(self._source, clock=clock)
        return self._source(clock=clock)

    @contextlib.asynccontextmanager
    async def open(self, *, clock: Clock | None = None) -> AsyncIterator[Store]:
        """A store that is open inside the block."""
        async with self.connect(clock=clock) as store:
            yield store

    @contextlib.asynccontextmanager
    async def several(self, count: int, *, clock: Clock | None = None) -> AsyncIterator[list[Store]]:
        """That many stores, all open inside the block."""
        async with contextlib.AsyncExitStack() as stack:
            yield [await stack.enter_async_context(self.open(clock=clock)) for _ in range(count)]
