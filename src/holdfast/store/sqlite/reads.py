"""Reading: functions of a connection, each from one moment."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from itertools import starmap
from typing import Any

import msgspec

from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Event, Found, Header, Lease, Loaded, Record
from holdfast.store.backend import Cursor, Order
from holdfast.store.rules import guard
from holdfast.store.search import located
from holdfast.store.sqlite.batch import SEQ_BITS, Q, last_event
from holdfast.store.sqlite.commit import after_prefix

_IS_OPEN = "k.status IN ('pending', 'executing', 'interrupted', 'detached')"


def header(connection: sqlite3.Connection, key: ConversationKey) -> Header:
    """The header of a conversation."""
    with _one_moment(connection):
        return _settled(connection, _row(connection, key))


def load(
    connection: sqlite3.Connection,
    key: ConversationKey,
    named: Sequence[tuple[str, str]],
    *,
    at_most: int | None,
) -> Loaded | None:
    """All that is needed to go on; None if that is more than ``at_most`` events."""
    with _one_moment(connection):
        row = _row(connection, key)
        pk, head = row[0], _settled(connection, row)
        if at_most is not None and head.last_seq - head.tail >= at_most:
            return None
        open_calls = connection.execute(
            f"{Q.calls} WHERE k.owner = ? AND k.conversation = ? AND {_IS_OPEN} ORDER BY k.pk",
            (key.owner, pk),
        ).fetchall()
        found = {}
        for collection, name in named:
            if record := connection.execute(f"{Q.records} AND key = ?", (pk, collection, name)).fetchone():
                found[collection, name] = _record(pk, record)
        return Loaded(head, _events(connection, pk, head.tail - 1, None, None), _calls(open_calls), found)


def events(
    connection: sqlite3.Connection, key: ConversationKey, after: int, before: int | None, limit: int | None
) -> list[Event]:
    """Events of a range, ascending."""
    return _events(connection, _pk(connection, key), after, before, limit)


def calls(
    connection: sqlite3.Connection,
    key: ConversationKey,
    status: Collection[CallStatus] | None,
    call_ids: Collection[str] | None,
) -> list[Call]:
    """Calls of a conversation in the order they were opened."""
    where, values = "k.conversation = ?", [_pk(connection, key)]
    for column, wanted in (("k.status", status), ("k.call_id", call_ids)):
        if wanted is not None:
            where += f" AND {column} IN ({_marks(wanted)})"
            values += wanted  # type: ignore[arg-type]
    return _calls(connection.execute(f"{Q.calls} WHERE {where} ORDER BY k.pk", values).fetchall())


def records(
    connection: sqlite3.Connection,
    key: ConversationKey,
    collection: str,
    keys: Collection[str] | None,
    prefix: str,
    after: str | None,
    before: str | None,
    limit: int | None,
    reverse: bool,
) -> list[Record]:
    """Records of a collection, by key."""
    pk = _pk(connection, key)
    where, values = "", [pk, collection]
    if keys is not None:
        where, values = f" AND key IN ({_marks(keys)})", [*values, *keys]
    else:
        bounds = (
            (">=", prefix or None),
            ("<", after_prefix(prefix) if prefix else None),
            (">", after),
            ("<", before),
        )
        for operator, bound in bounds:
            if bound is not None:
                where += f" AND key {operator} ?"
                values.append(bound)
    order = "DESC" if reverse else "ASC"
    values.append(-1 if limit is None else limit)
    rows = connection.execute(f"{Q.records}{where} ORDER BY key {order} LIMIT ?", values)
    return [_record(pk, row) for row in rows]


def texts(
    connection: sqlite3.Connection, key: ConversationKey, after: int, before: int | None
) -> dict[int, str]:
    """The search texts of a range, by seq."""
    bounds = _bounds(_pk(connection, key), after, before)
    return {
        n & (1 << SEQ_BITS) - 1: located(where, data)
        for n, where, data in connection.execute(Q.texts_between, bounds)
    }


def inventory(
    connection: sqlite3.Connection, key: ConversationKey
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The names of a conversation's collections, and its tags."""
    with _one_moment(connection):
        pk = _pk(connection, key)
        collections = [row[0] for row in connection.execute(Q.collections, (pk,))]
        return collections, connection.execute(Q.tags_of, (pk,)).fetchall()


def headers(
    connection: sqlite3.Connection,
    owner: str,
    tag: tuple[str, str] | None,
    order: Order,
    before: Cursor | None,
    limit: int,
) -> list[Header]:
    """Headers of an owner's conversations, newest first, as their rows have them."""
    column = "activity" if order == "activity" else "created_at"
    where, values = "c.owner = ?", [owner]
    if tag is not None:
        where += " AND c.pk IN (SELECT conversation FROM tags WHERE owner = ? AND name = ? AND value = ?)"
        values += [owner, *tag]
    if before is not None:
        where += f" AND (c.{column}, c.id) < (?, ?)"
        values += before  # type: ignore[arg-type]
    query = f"{Q.header} WHERE {where} ORDER BY c.{column} DESC, c.id DESC LIMIT ?"
    return [_header(row) for row in connection.execute(query, (*values, limit))]


def is_unsettled(connection: sqlite3.Connection, owner: str) -> bool:
    """Whether rows of an owner's conversations lag behind their logs."""
    return connection.execute(Q.owner_unsettled, (owner,)).fetchone() is not None


def owners(connection: sqlite3.Connection, after: str, limit: int) -> list[str]:
    """Owners that have conversations."""
    return [row[0] for row in connection.execute(Q.owners, (after, limit))]


def open_calls(
    connection: sqlite3.Connection, owner: str, status: Collection[CallStatus], limit: int
) -> list[Call]:
    """Open calls of an owner's conversations, oldest first."""
    where = f"k.owner = ? AND {_IS_OPEN} AND k.status IN ({_marks(status)}) AND c.owner = ?"
    query = f"{Q.calls} WHERE {where} ORDER BY k.opened_at, c.id, k.pk LIMIT ?"
    return _calls(connection.execute(query, (owner, *status, owner, limit)).fetchall())


def due(connection: sqlite3.Connection, now: int, limit: int) -> list[Call]:
    """Calls whose expiry has passed, longest first."""
    where = "k.expires_at IS NOT NULL AND k.expires_at <= ? AND c.owner IS NOT NULL"
    query = f"{Q.calls} WHERE {where} ORDER BY k.expires_at, c.owner, c.id, k.call_id LIMIT ?"
    return _calls(connection.execute(query, (now, limit)).fetchall())


def find(connection: sqlite3.Connection, owner: str, name: str, value: str, limit: int) -> list[Found]:
    """Where a tag is."""
    rows = connection.execute(Q.find, (owner, name, value, limit))
    return [Found(ConversationKey(owner, id), ref) for id, ref in rows]


def marks(connection: sqlite3.Connection, key: ConversationKey) -> tuple[Any, ...] | None:
    """Numbers that change whenever something about a conversation does that a watcher is told of."""
    found: tuple[Any, ...] | None = connection.execute(Q.marks, (key.owner, key.id)).fetchone()
    return found


def data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when another connection writes to the file."""
    number: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return number


def _row(connection: sqlite3.Connection, key: ConversationKey) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(
        f"{Q.header} WHERE c.owner = ? AND c.id = ?", (key.owner, key.id)
    ).fetchone()
    if row is None:
        raise NotFound(key)
    return row


def _pk(connection: sqlite3.Connection, key: ConversationKey) -> int:
    row = connection.execute(Q.head, (key.owner, key.id)).fetchone()
    if row is None:
        raise NotFound(key)
    pk: int = row[0]
    return pk


@contextlib.contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _settled(connection: sqlite3.Connection, row: tuple[Any, ...]) -> Header:
    """The header of a row, with the numbers that the row does not have yet."""
    pk, last_seq, changes, activity, unsettled_from = row[0], row[3], row[4], row[7], row[-1]
    if unsettled_from is None:
        return _header(row)
    last_seq, activity = last_event(connection, pk, last_seq, activity)
    revision = guard(pk, last_seq + changes)
    return msgspec.structs.replace(_header(row), last_seq=last_seq, activity=activity, revision=revision)


def _header(row: tuple[Any, ...]) -> Header:
    (
        pk, owner, id, last_seq, changes, version, created_at, activity, tail, status, agent, takeovers, wake_at,
        fences, holder, lease_until, title, metadata, settings, forked_from, forked_at, _,
    ) = row  # fmt: skip
    key = ConversationKey(owner, id)
    lease = None if holder is None else Lease(key, holder, guard(pk, fences), lease_until)
    return Header(
        key, last_seq, created_at, activity, guard(pk, last_seq + changes), guard(pk, version), title, status, agent,
        metadata, settings, tail, takeovers, wake_at, lease, forked_from, forked_at,
    )  # fmt: skip


def _events(
    connection: sqlite3.Connection, pk: int, after: int, before: int | None, limit: int | None
) -> list[Event]:
    bounds = _bounds(pk, after, before)
    if limit is None:
        return list(starmap(Event, connection.execute(Q.events_between, bounds)))
    newest = list(starmap(Event, connection.execute(Q.newest_events_between, (*bounds, limit))))
    newest.reverse()
    return newest


def _bounds(pk: int, after: int, before: int | None) -> tuple[int, int]:
    base, end = pk << SEQ_BITS, (pk + 1) << SEQ_BITS
    return base | max(after, 0), end if before is None else min(base + max(before, 0), end)


def _calls(rows: list[tuple[Any, ...]]) -> list[Call]:
    return [Call(ConversationKey(owner, id), *rest) for owner, id, *rest in rows]


def _record(pk: int, row: tuple[Any, ...]) -> Record:
    collection, key, data, revision = row
    return Record(collection, key, data, guard(pk, revision))


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
