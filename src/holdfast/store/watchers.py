"""Who waits for news in this process: hints are merged, signals are dropped when nobody keeps up."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Self

from holdfast.ids import ConversationKey
from holdfast.model.records import Notice

MAX_SIGNALS = 1024


class Watchers:
    """The watches that are open in this process. Used from one event loop."""

    def __init__(self) -> None:
        self._open: set[Watch] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def keys(self) -> set[ConversationKey]:
        """The conversations that somebody watches by name."""
        return {key for watch in self._open for key in watch.keys or ()}

    @property
    def any(self) -> bool:
        """Whether somebody watches all conversations."""
        return any(watch.keys is None for watch in self._open)

    def changed(self, keys: Iterable[ConversationKey | None]) -> None:
        """Hint that these conversations may have changed; None: one that can't be named."""
        for key in keys:
            for watch in self._open:
                if watch.keys is None or key in watch.keys:
                    watch.hint(key)

    def signal(self, key: ConversationKey, payload: bytes) -> None:
        """Pass a signal on to who watches the conversation."""
        for watch in self._open:
            if watch.keys is None or key in watch.keys:
                watch.signal(Notice(key, payload))

    @contextlib.asynccontextmanager
    async def watch(self, keys: frozenset[ConversationKey] | None) -> AsyncIterator[Watch]:
        """Open a watch: everything that happens from here on is noticed."""
        watch = Watch(keys)
        self._open.add(watch)
        try:
            yield watch
        finally:
            self._open.discard(watch)

    def close(self) -> None:
        """End every watch: their iterators stop."""
        for watch in self._open:
            watch.end()


class Watch:
    """The notices of one watcher, as an iterator that ends when the store is closed."""

    def __init__(self, keys: frozenset[ConversationKey] | None) -> None:
        self.keys = keys
        self._hints: dict[ConversationKey | None, None] = {}
        self._signals: deque[Notice] = deque(maxlen=MAX_SIGNALS)
        self._news = asyncio.Event()
        self._ended = False
        self._hint_next = False

    def hint(self, key: ConversationKey | None) -> None:
        self._hints[key] = None
        self._news.set()

    def signal(self, notice: Notice) -> None:
        self._signals.append(notice)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notice:
        """The next notice. A wait that is cancelled loses nothing; another may follow."""
        while not self._hints and not self._signals:
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        # In turns, so that a flood of one kind does not keep the other back.
        self._hint_next = not self._hint_next
        if self._hints and (self._hint_next or not self._signals):
            key = next(iter(self._hints))
            del self._hints[key]
            return Notice(key)
        return self._signals.popleft()
