"""How the writer thread wakes the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable


class Bell:
    """
    Calls a function in the event loop whenever a thread rings.

    ``call_soon_threadsafe`` does the same through a socket and three calls of the system more; a
    tenth of what a lone commit takes. It is used where there is no eventfd. Rings that come
    together may be answered by one call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[], None]) -> None:
        self._loop, self._answer = loop, answer
        self._eventfd: int | None = None
        if hasattr(os, "eventfd"):
            with contextlib.suppress(NotImplementedError):
                fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                loop.add_reader(fd, self._rung)
                self._eventfd = fd

    def ring(self) -> None:
        """Have the function called soon. From any thread."""
        if self._eventfd is not None:
            os.eventfd_write(self._eventfd, 1)
        else:
            # A loop that is closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer)

    def close(self) -> None:
        """Answer what was rung for, and take the bell down. In the event loop, when no thread rings any more."""
        if self._eventfd is not None:
            self._loop.remove_reader(self._eventfd)
            os.close(self._eventfd)
            self._eventfd = None
        self._answer()

    def _rung(self) -> None:
        assert self._eventfd is not None
        os.eventfd_read(self._eventfd)
        self._answer()
