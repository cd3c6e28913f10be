"""Rows as structs. Statements of all dialects give their columns in this order, payloads as bytes."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.ids import ConversationKey
from holdfast.model.records import Call, Header, Lease, Record
from holdfast.store.rules import guard
from holdfast.store.sql.database import Row


def header_of(row: Row) -> Header:
    """A header from the columns of the query ``header``."""
    pk, owner, id, last_seq, commits, version, created_at, activity, tail, status, agent = row[:11]
    takeovers, wake_at, fences, holder, lease_until = row[11:16]
    title, metadata, settings, forked_from, forked_at = row[16:]
    key = ConversationKey(owner, id)
    return Header(
        key,
        last_seq,
        created_at,
        activity,
        guard(pk, commits),
        guard(pk, version),
        title if isinstance(title, str) else title.decode(),
        status,
        agent,
        metadata,
        settings,
        tail,
        takeovers,
        wake_at,
        None if holder is None else Lease(key, holder, guard(pk, fences), lease_until),
        forked_from,
        forked_at,
    )


def calls_of(rows: Iterable[Row]) -> list[Call]:
    """Calls from rows that start with the owner and the id of their conversation."""
    return [Call(ConversationKey(row[0], row[1]), *row[2:]) for row in rows]


def record_of(pk: int, row: Row) -> Record:
    """A record from its collection, key, data and counter."""
    collection, key, data, revision = row
    return Record(collection, key, data, guard(pk, revision))
