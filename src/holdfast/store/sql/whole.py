"""
Deleting and forking whole conversations, in slices.

A conversation of many events would keep a transaction open for long. So it loses its name first (or
does not have one yet), and the rest is done bit by bit between the others' commits.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.clock import SECOND
from holdfast.errors import InvalidOp
from holdfast.ids import ConversationKey
from holdfast.model.records import Erased
from holdfast.store.change import Change

EVENTS_A_SLICE = 1000
HIDDEN_FOR = 60 * SECOND
"""How long a fork may show no sign of life before others remove what it has made."""


class Fork(msgspec.Struct):
    """A fork on its way: the hidden conversation, and how far its events are copied."""

    pk: int
    source: int
    at: int
    redactions: int
    copied: int = 0


class Slices(Protocol):
    """The steps of long operations. Each is one transaction, and harmless if it is repeated."""

    async def hide(self, key: ConversationKey, when: int | None) -> tuple[int, Erased] | None:
        """Take a conversation's name away, and count what it has; None if there is none."""
        ...

    async def hidden(self) -> list[int]:
        """What crashed deletes and forks have left behind."""
        ...

    async def remove_slice(self, pk: int) -> bool:
        """Remove some rows of a hidden conversation; True if there are more."""
        ...

    async def begin_fork(self, key: ConversationKey, new: ConversationKey, at: int | None) -> Fork:
        """Make the hidden conversation that the events are copied to."""
        ...

    async def fork_slice(self, fork: Fork, until: int) -> None:
        """Copy the events up to ``until``."""
        ...

    async def reveal(
        self, fork: Fork, key: ConversationKey, change: Change, collections: frozenset[str]
    ) -> bool:
        """
        Give the fork its name, its records and its operations.

        False if the fork has to start again: an event of the source was redacted meanwhile, and the
        copy may still have it; or others took it for a crashed one.
        """
        ...


async def remove(slices: Slices, *pks: int) -> None:
    """Remove hidden conversations to the last row."""
    for pk in pks:
        while await slices.remove_slice(pk):
            pass


async def copy_events(slices: Slices, fork: Fork) -> None:
    """Copy the events of a fork."""
    while fork.copied < fork.at:
        until = min(fork.copied + EVENTS_A_SLICE, fork.at)
        await slices.fork_slice(fork, until)
        fork.copied = until


def fork_point(key: ConversationKey, at: int | None, last_seq: int) -> int:
    """
    The seq up to which a conversation is forked.

    Raises:
        InvalidOp: ``at`` is not a seq of the log.
    """
    at = last_seq if at is None else at
    if not 0 <= at <= last_seq:
        raise InvalidOp(f"{key} can't be forked at seq {at}: its log ends at {last_seq}")
    return at
