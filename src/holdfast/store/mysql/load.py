"""Reads of several statements, in one round trip and from one moment."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Event, Header, Loaded
from holdfast.store.backend import Cursor
from holdfast.store.mysql.driver import COMMIT, Pool
from holdfast.store.mysql.literals import Table, written
from holdfast.store.sql.database import ENDLESS, bounded, digest
from holdfast.store.sql.rows import calls_of, header_of, record_of

_ONE_MOMENT = (
    b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)


async def load(
    pool: Pool, q: SimpleNamespace, key: ConversationKey, names: Sequence[tuple[str, str]]
) -> Loaded:
    """
    Read header, tail, open calls and named records.

    Raises:
        NotFound: There is no such conversation for this owner.
    """
    place = digest(key.owner, key.id)
    statements = [written(query, place=place) for query in (q.header, q.load_events, q.load_calls)]
    if names:
        statements.append(written(q.load_records, place=place, given=Table(("collection", "name"), names)))
    results = await pool.read(*_ONE_MOMENT, *statements, COMMIT)
    header, events, calls, *records = results[len(_ONE_MOMENT) : -1]
    if not header.rows:
        raise NotFound(key)
    return Loaded(
        header=header_of(header.rows[0]),
        events=[Event(*row) for row in events.rows],
        calls=calls_of(calls.rows),
        records={(row[1], row[2]): record_of(row[0], row[1:]) for result in records for row in result.rows},
    )


async def newest(
    pool: Pool, q: SimpleNamespace, owner: str, before: Cursor | None, limit: int
) -> list[Header]:
    """An owner's conversations by activity. Where to look is found first: joined, it would not be a range."""
    at, id = (ENDLESS, "") if before is None else (bounded(before[0]), before[1])
    values = {"owner": owner, "at": at, "id": id, "limit": bounded(limit)}
    statements = (written(query, **values) for query in (q.headers_bound, q.headers_by_activity))
    *_, found, _ = await pool.read(*_ONE_MOMENT, *statements, COMMIT)
    return [header_of(row) for row in found.rows]


async def inventory(
    pool: Pool, q: SimpleNamespace, key: ConversationKey
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """
    The names of a conversation's collections, and its tags.

    Raises:
        NotFound: There is no such conversation for this owner.
    """
    place = digest(key.owner, key.id)
    statements = (written(query, place=place) for query in (q.exists, q.collections, q.tags))
    *_, there, collections, tags, _ = await pool.read(*_ONE_MOMENT, *statements, COMMIT)
    if not there.rows:
        raise NotFound(key)
    return [row[0] for row in collections.rows], [(row[0], row[1], row[2]) for row in tags.rows]
