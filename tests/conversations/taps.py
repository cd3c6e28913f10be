"""What goes into a store while a test looks."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

from holdfast.conversations import Conversation
from holdfast.store import Store
from holdfast.store.change import Change


@contextlib.contextmanager
def committed_bytes(store: Store) -> Iterator[list[int]]:
    """The bytes of each commit that is made inside the block."""
    sizes: list[int] = []
    commit = store.commit

    async def counted(key: Any, ops: Any, **options: Any) -> Any:
        sizes.append(Change.of(key, ops).size)
        return await commit(key, ops, **options)

    store.commit = counted  # type: ignore[method-assign]
    try:
        yield sizes
    finally:
        del store.commit


def tapped(store: Store) -> list[tuple[str, Any, Any]]:
    """Every call of a public function of the store from here on: its name and arguments."""
    calls: list[tuple[str, Any, Any]] = []
    for name, function in inspect.getmembers(store, inspect.iscoroutinefunction):
        if name.startswith("_") or name in ("open", "close"):
            continue

        def noted(name: str, function: Any) -> Any:
            @functools.wraps(function)
            async def call(*args: Any, **kwargs: Any) -> Any:
                calls.append((name, args, kwargs))
                return await function(*args, **kwargs)

            return call

        setattr(store, name, noted(name, function))
    return calls


def turns(conversation: Conversation) -> Any:
    """What a model gets, for tests that know what stands there."""
    return conversation.transcript()
