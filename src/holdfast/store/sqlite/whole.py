"""
Deleting and forking whole conversations, in slices; scrubbing the file.

A conversation of 50,000 events would keep every other writer waiting for a third of a second.
So it loses its name first (or does not have one yet), and the rest is done bit by bit between
the others' commits.
"""

from __future__ import annotations

import sqlite3
import time

import msgspec

from holdfast.clock import SECOND
from holdfast.errors import AlreadyExists, InvalidOp, NotFound, StaleHeader, StoreUnavailable
from holdfast.ids import ConversationKey
from holdfast.model.records import Erased
from holdfast.store.change import Change
from holdfast.store.rules import guard
from holdfast.store.sqlite.batch import SEQ_BITS, Batch, Q
from holdfast.store.sqlite.commit import commit
from holdfast.store.sqlite.index import unindex

EVENTS_A_SLICE = 1000
ROWS_A_SLICE = 1000
RECORDS_A_SLICE = 100
HIDDEN_FOR = 60 * SECOND
SCRUB_SECONDS = 30.0


class Hidden(msgspec.Struct):
    """A conversation without a name. ``owner`` was its owner, if it had been indexed for one."""

    pk: int
    owner: str | None
    unsettled_from: int | None


def hide(batch: Batch, key: ConversationKey, when: int | None) -> tuple[Hidden, Erased] | None:
    """Take a conversation's name away: from here on it does not exist for anybody."""
    head = batch.head(key)
    if head is None:
        return None
    revision = guard(head.pk, head.count)
    if when not in (None, revision):
        raise StaleHeader(key, expected=when or 0, actual=revision)
    batch.flush()
    counts = (
        batch.execute(count, (head.pk,)).fetchone()[0]
        for count in (Q.count_calls, Q.count_records, Q.count_tags)
    )
    erased = Erased(1, head.last_seq, *counts)
    batch.execute(Q.hide, (head.pk,))
    batch.forget(key)
    batch.changed.add(key)
    return Hidden(head.pk, key.owner, head.unsettled_from), erased


def hidden(connection: sqlite3.Connection, now: int) -> list[Hidden]:
    """What crashed deletes and forks have left behind."""
    return [Hidden(*row) for row in connection.execute(Q.hidden, (now,)).fetchall()]


def remove_slice(batch: Batch, gone: Hidden) -> bool:
    """Remove some rows of a hidden conversation; True if there are more."""
    base, end = gone.pk << SEQ_BITS, (gone.pk + 1) << SEQ_BITS
    (last,) = batch.execute(Q.last_of_slice, (base, end, EVENTS_A_SLICE)).fetchone()
    if last is not None:
        if gone.owner is not None:
            indexed = last if gone.unsettled_from is None else min(last, (base | gone.unsettled_from) - 1)
            unindex(batch, gone.owner, batch.execute(Q.searchable_between, (base, indexed)).fetchall())
        batch.execute(Q.delete_events, (base, last))
        return True
    for statement, size in (
        (Q.delete_records, RECORDS_A_SLICE),
        (Q.delete_calls, ROWS_A_SLICE),
        (Q.delete_event_ids, ROWS_A_SLICE),
        (Q.delete_tokens, ROWS_A_SLICE),
        (Q.delete_tags, ROWS_A_SLICE),
    ):
        if batch.execute(statement, (gone.pk, size)).rowcount:
            return True
    batch.execute(Q.delete_profile, (gone.pk,))
    batch.execute(Q.delete_conversation, (gone.pk,))
    return False


class Fork(msgspec.Struct):
    """A fork on its way: the hidden conversation, and how far its events are copied."""

    pk: int
    source: int
    at: int
    redactions: int
    copied: int = 0

    @property
    def hidden(self) -> Hidden:
        return Hidden(self.pk, None, None)


def begin_fork(batch: Batch, key: ConversationKey, new: ConversationKey, at: int | None) -> Fork:
    """Make the hidden conversation that the events are copied to."""
    source = batch.head(key)
    if source is None:
        raise NotFound(key)
    at = source.last_seq if at is None else at
    if not 0 <= at <= source.last_seq:
        raise InvalidOp(f"{key} can't be forked at seq {at}: its log ends at {source.last_seq}")
    if batch.head(new) is not None:
        raise AlreadyExists(new)
    batch.flush()
    _, redactions = batch.execute(Q.fork_state, (key.owner, key.id, source.pk)).fetchone()
    now = batch.now()
    pk = batch.execute(Q.fork_hidden, (at, now, now, now + HIDDEN_FOR, source.pk)).lastrowid
    assert pk is not None
    batch.execute(Q.fork_profile, (pk, key.id, at, source.pk))
    return Fork(pk, source.pk, at, redactions)


def fork_slice(batch: Batch, fork: Fork) -> bool:
    """Copy some events; True if there are more."""
    until = min(fork.copied + EVENTS_A_SLICE, fork.at)
    source, target = fork.source << SEQ_BITS, fork.pk << SEQ_BITS
    batch.execute(Q.fork_events, (target - source, source | fork.copied + 1, source | until))
    batch.execute(Q.fork_ids, (fork.pk, target | fork.copied + 1, target | until))
    batch.execute(Q.keep_hidden, (batch.now() + HIDDEN_FOR, fork.pk))
    fork.copied = until
    return until < fork.at


def reveal(
    batch: Batch, fork: Fork, key: ConversationKey, change: Change, collections: frozenset[str]
) -> bool:
    """
    Give the fork its name, its records and its operations.

    False if an event of the source was redacted meanwhile: the copy may still have it, and the
    fork has to start again.
    """
    batch.flush()
    row = batch.execute(Q.fork_state, (key.owner, key.id, fork.source)).fetchone()
    if row is None:
        raise NotFound(key)
    if batch.head(change.key) is not None:
        raise AlreadyExists(change.key)
    if row[1] != fork.redactions:
        return False
    now = batch.now()
    batch.execute(Q.reveal, (change.key.owner, change.key.id, now, now, 1 if fork.at else None, fork.pk))
    for collection in collections:
        batch.execute(Q.fork_records, (fork.pk, fork.source, collection))
    commit(batch, msgspec.structs.replace(change, create=None))
    batch.unsettled += fork.at
    return True


def scrub(batch: Batch) -> None:
    """Rewrite the file without what was deleted, and empty the write-ahead log."""
    batch.execute("INSERT INTO texts (texts) VALUES ('optimize')")
    batch.execute("VACUUM")
    deadline = time.monotonic() + SCRUB_SECONDS
    # SQLite waits for readers by itself, but not for a checkpoint that another connection runs.
    while batch.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                "the old bytes are still being read by somebody; scrub again when they are done"
            )
        time.sleep(0.01)
