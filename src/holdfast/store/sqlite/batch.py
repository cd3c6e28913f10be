"""
A group of writes in one transaction.

Rows of the log and of the conversations' heads are collected and written together at the end;
whoever reads those tables in between flushes first. Heads stay cached from one transaction to
the next for as long as no other connection wrote to the file.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any

from holdfast.clock import Clock
from holdfast.ids import ConversationKey
from holdfast.store.named import load_queries

Q = load_queries("holdfast.store.sqlite")

SEQ_BITS = 32
_MAX_HEADS = 10_000


class Head:
    """What a commit needs to know of a conversation."""

    __slots__ = ("activity", "changes", "fences", "holder", "last_seq", "pk", "unsettled_from", "version")

    def __init__(
        self,
        pk: int,
        last_seq: int = 0,
        changes: int = 0,
        version: int = 0,
        activity: int = 0,
        fences: int = 0,
        holder: str | None = None,
        unsettled_from: int | None = None,
    ) -> None:
        self.pk = pk
        self.last_seq = last_seq
        self.changes = changes
        self.version = version
        self.activity = activity
        self.fences = fences
        self.holder = holder
        self.unsettled_from = unsettled_from

    @property
    def count(self) -> int:
        """A number that goes up with each commit."""
        return self.last_seq + self.changes


class Batch:
    """The writer's connection with what it collects in a transaction. Used by the writer thread only."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.execute: Callable[..., sqlite3.Cursor] = connection.execute
        self.executemany: Callable[..., sqlite3.Cursor] = connection.executemany
        self.now = clock
        self.changed: set[ConversationKey] = set()
        self.unsettled = 0
        self._connection = connection
        self._heads: dict[ConversationKey, Head] = {}
        self._seen = -1
        self._events: list[tuple[Any, ...]] = []
        self._moved: dict[Head, None] = {}

    def begin(self) -> None:
        """Start a transaction as the only writer of the file."""
        self.execute("BEGIN IMMEDIATE")
        seen = self.execute("PRAGMA data_version").fetchone()[0]
        if seen != self._seen or len(self._heads) > _MAX_HEADS:
            self._heads.clear()
            self._seen = seen

    def commit(self) -> None:
        """Write what was collected, durably."""
        self.flush()
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Forget everything since ``begin``."""
        self._events.clear()
        self._moved.clear()
        self._heads.clear()
        self.changed.clear()
        if self._connection.in_transaction:
            # After an I/O error the rollback can fail too; SQLite then discards the transaction by itself.
            with contextlib.suppress(sqlite3.Error):
                self.execute("ROLLBACK")

    @property
    def writes(self) -> int:
        """A number that changes with each write of this transaction."""
        return self._connection.total_changes + len(self._events) + len(self._moved)

    def head(self, key: ConversationKey) -> Head | None:
        """The conversation's head as of now in this transaction, or None."""
        head = self._heads.get(key)
        if head is None and (row := self.execute(Q.head, (key.owner, key.id)).fetchone()):
            head = self._heads[key] = Head(*row)
            if head.unsettled_from is not None:
                head.last_seq, head.activity = self.last_event(head.pk, head.last_seq, head.activity)
        return head

    def last_event(self, pk: int, last_seq: int, activity: int) -> tuple[int, int]:
        """See ``last_event``."""
        return last_event(self._connection, pk, last_seq, activity)

    def remember(self, key: ConversationKey, head: Head) -> None:
        """Note the head of a conversation that this transaction created."""
        self._heads[key] = head

    def forget(self, key: ConversationKey) -> None:
        """Read the conversation's head anew next time: something else changed its row."""
        self._heads.pop(key, None)

    def forget_all(self) -> None:
        """Read every head anew: something changed many rows."""
        self._heads.clear()

    def append(self, row: tuple[Any, ...]) -> None:
        """Add an event's row."""
        self._events.append(row)

    def mark_unsettled(self, head: Head, first: int) -> None:
        """Note that the conversation's row and the index do not know of events from ``first`` on."""
        self.unsettled += head.last_seq - first + 1
        if head.unsettled_from is None:
            head.unsettled_from = first
            self.execute(Q.mark_unsettled, (first, head.pk))

    def settled(self, key: ConversationKey, rest: int | None) -> None:
        """Note that the conversation's row and the index know of all events before ``rest``."""
        if head := self._heads.get(key):
            head.unsettled_from = rest

    def move(self, head: Head) -> None:
        """Write the head's numbers when the transaction ends."""
        self._moved[head] = None

    def flush(self) -> None:
        """Write what was collected, so that statements of this transaction see it."""
        if self._events:
            if len(self._events) == 1:
                self.execute(Q.append, self._events[0])
            else:
                self.executemany(Q.append, self._events)
            self._events.clear()
        if self._moved:
            moved = [(head.last_seq, head.changes, head.activity, head.pk) for head in self._moved]
            self.executemany(Q.advance, moved)
            self._moved.clear()


def last_event(connection: sqlite3.Connection, pk: int, last_seq: int, activity: int) -> tuple[int, int]:
    """``last_seq`` and ``activity`` of a conversation whose row does not know of its newest events."""
    bounds = ((pk << SEQ_BITS) + last_seq, (pk + 1) << SEQ_BITS)
    seq, at = connection.execute(Q.last_event, bounds).fetchone() or (last_seq, activity)
    return seq, max(at, activity)
