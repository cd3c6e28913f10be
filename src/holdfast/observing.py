"""
For hosts whose loop can't await: an observer that is called for every new item.

It returns at once, and what it was given is appended in order in the background. Leaving its block waits for
all of it. What was not flushed yet when a process is killed is lost, and nothing before it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from holdfast.errors import BufferFull, HoldfastError, InvalidInput, StoreError

__all__ = ["Observer"]

_AT_ONCE = 64


class Observer:
    """
    Appends items in the order in which it is called with them; an async context manager.

    ``append`` is that of a conversation, or any function that takes items and is done when they are kept. Any
    thread may call the observer. When ``buffer`` items wait, a call from another thread waits for room; one from
    the event loop's own thread, which nothing could make room for meanwhile, raises ``BufferFull``.

    An item that can't be appended stops it: the next call, ``flush`` and the end of the block raise what went
    wrong, and ``unsaved`` has that item and all after it.

    >>> import holdfast
    >>> async def main() -> None:
    ...     async with holdfast.connect("memory://") as hub:
    ...         conversation = await hub.open("user-1", "trip-42")
    ...         async with Observer(conversation.append) as observe:
    ...             observe("Flights to Lisbon?")
    ...         print(conversation.seq)
    >>> asyncio.run(main())
    1
    """

    def __init__(self, append: Callable[..., Awaitable[object]], *, buffer: int = 1000) -> None:
        if buffer < 1:
            raise InvalidInput(f"a buffer has room for at least 1 item, not {buffer}")
        self._append = append
        self._buffer = buffer
        self._items: deque[object] = deque()
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._open = False

    @property
    def unsaved(self) -> tuple[object, ...]:
        """What is not appended yet."""
        with self._changed:
            return tuple(self._items)

    def __call__(self, item: object) -> None:
        """
        Take an item.

        Raises:
            BufferFull: Too many wait, and this is the event loop's own thread.
            InvalidInput: The observer is not open.
            HoldfastError: What went wrong with an item before.
        """
        with self._changed:
            while True:
                self._check()
                if len(self._items) < self._buffer:
                    break
                if threading.get_ident() == self._thread:
                    raise BufferFull(self._buffer)
                self._changed.wait()
            self._items.append(item)
        self._loop.call_soon_threadsafe(self._wake.set)

    async def flush(self) -> None:
        """
        Wait until everything that was taken so far is durable.

        Raises:
            HoldfastError: What went wrong with an item.
        """
        await self._idle.wait()
        while self.unsaved and self._error is None:
            self._idle.clear()
            self._wake.set()
            await self._idle.wait()
        if self._error is not None:
            raise self._error

    async def __aenter__(self) -> Self:
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._error, self._open = None, True
        self._writer = self._loop.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()
        try:
            await self.flush()
        finally:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if not self._open:
            raise InvalidInput("an observer is used inside its `async with` block")

    async def _write(self) -> None:
        while self._error is None:
            await self._wake.wait()
            self._wake.clear()
            self._idle.clear()
            while self._error is None and (some := self.unsaved[:_AT_ONCE]):
                await self._save(some)
            self._idle.set()

    async def _save(self, some: tuple[object, ...]) -> None:
        try:
            await self._append(*some)
        except Exception as exc:
            if len(some) > 1 and isinstance(exc, HoldfastError) and not isinstance(exc, StoreError):
                # One of them is at fault, and nothing was written: those before it are kept.
                for item in some:
                    if self._error is None:
                        await self._save((item,))
                return
            self._error = exc
        with self._changed:
            if self._error is None:
                for _ in some:
                    self._items.popleft()
            self._changed.notify_all()
