"""
The same hub for code that can't await: Flask, Django, scripts, notebooks.

Everything is the asynchronous hub's own; its event loop runs in a thread, and each call waits for it. Any
thread may call.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast import hub as asynchronous
from holdfast.errors import StoreClosed

__all__ = ["Waiting", "connect"]

T = TypeVar("T")


@contextmanager
def connect(url: str, **options: Any) -> Iterator[Waiting]:
    """
    The hub over the store behind a URL, for a ``with`` block; the options are those of ``holdfast.connect``.

    >>> with connect("memory://") as hub:
    ...     conversation = hub.open("user-1", "trip-42")
    ...     commit = conversation.append("Flights to Lisbon?")
    ...     conversation.transcript(format="openai")
    [{'role': 'user', 'content': 'Flights to Lisbon?'}]

    Raises:
        UnknownStore: No installed store has this scheme.
        MissingExtra: The store needs a package that is not installed.
        StoreUnavailable: The file or server can't be reached.
    """
    hub = asynchronous.connect(url, **options)
    portal = _Portal(url)
    try:
        portal.run(hub.__aenter__())
        try:
            yield Waiting(hub, portal)
        finally:
            portal.run(hub.__aexit__(None, None, None))
    finally:
        portal.close()


class Waiting:
    """
    Something of the hub whose asynchronous methods are called without ``await``.

    Attributes and results that have asynchronous methods themselves are wrapped the same way; all others
    are what they are.
    """

    def __init__(self, of: object, portal: _Portal) -> None:
        self._of, self._portal = of, portal

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if not callable(value):
            return self._wrapped(value)

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._wrapped(self._portal.run(_called(value, args, kwargs)))

        return call

    def __repr__(self) -> str:
        return f"Waiting({self._of!r})"

    def _wrapped(self, value: Any) -> Any:
        kind = type(value)
        ours = kind.__module__.startswith("holdfast.")
        awaits = ours and any(inspect.iscoroutinefunction(member) for member in vars(kind).values())
        return Waiting(value, self._portal) if awaits else value


async def _called(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # Plain methods run in the loop too: what they read, a coroutine may be changing.
    result = function(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


class _Portal:
    """An event loop in a thread of its own."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-sync", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Run a coroutine in the loop and wait for it; a wait that is interrupted cancels it.

        Raises:
            StoreClosed: The ``with`` block was left.
        """
        if self._loop.is_closed():
            work.close()
            raise StoreClosed(self._shown)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
