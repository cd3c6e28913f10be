"""
Stores that do not keep their word, for the crash harness to find out.

Each function breaks the SQLite store in the process that calls it: a child of the harness, which
loads this file on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.ids import ConversationKey
from holdfast.model.records import Commit
from holdfast.store import Append, Op, Store

_commit = Store.commit
_behind: set[asyncio.Task[Commit]] = set()


def answer_before_the_commit() -> None:
    """Acknowledge what is only on its way."""

    async def commit(self: Store, key: ConversationKey, ops: Sequence[Op], **options: Any) -> Commit:
        task = asyncio.create_task(_commit(self, key, ops, **options))
        _behind.add(task)
        await asyncio.sleep(0)
        return Commit((), (), 0, 0, 0)

    Store.commit = commit  # type: ignore[method-assign]


def commit_in_two_steps() -> None:
    """Write the log first and the rows a while after it, each safely."""

    async def commit(self: Store, key: ConversationKey, ops: Sequence[Op], **options: Any) -> Commit:
        events = [op for op in ops if isinstance(op, Append)]
        answer = await _commit(self, key, events, **options)
        await asyncio.sleep(0.02)
        await _commit(self, key, [op for op in ops if op not in events])
        return answer

    Store.commit = commit  # type: ignore[method-assign]


def forget_tokens() -> None:
    """Commit as asked, and forget the token."""

    async def commit(
        self: Store, key: ConversationKey, ops: Sequence[Op], *, token: str, **options: Any
    ) -> Commit:
        return await _commit(self, key, ops, **options)

    Store.commit = commit  # type: ignore[assignment]


def come_by(reach: Callable[[str], None], url: str) -> None:
    """Not a lie: a place inside the store where the harness may kill, as a store's author would name one."""

    async def commit(self: Store, key: ConversationKey, ops: Sequence[Op], **options: Any) -> Commit:
        reach("on the way in")
        return await _commit(self, key, ops, **options)

    Store.commit = commit  # type: ignore[method-assign]


def fail() -> None:
    """Do not even start."""
    raise RuntimeError("no such luck")
