"""All that is needed to go on with a conversation, in one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, Event, Header, Loaded, Record
from holdfast.store.postgres.kernel import Kernel
from holdfast.store.rules import guard
from holdfast.store.sql.database import Database, Row
from holdfast.store.sql.rows import header_of


async def load(
    kernel: Kernel, database: Database, key: ConversationKey, names: Sequence[tuple[str, str]]
) -> Loaded:
    """
    Read header, tail, open calls and named records from one moment.

    Raises:
        NotFound: There is no such conversation for this owner.
    """
    statement = kernel.statement(["load", "load_records"] if names else ["load"])
    collections, keys = [name[0] for name in names], [name[1] for name in names]
    rows = await database.fetch(statement, owner=key.owner, id=key.id, collection=collections, key=keys)
    kinds: dict[str, list[Row]] = {"head": [], "event": [], "call": [], "record": []}
    for row in rows:
        kinds[row[0]].append(row)
    if not kinds["head"]:
        raise NotFound(key)
    [head] = kinds["head"]
    pk = head[-1][0]
    # The parts of a UNION come in no promised order.
    events = sorted(kinds["event"], key=lambda row: row[1])
    calls = sorted(kinds["call"], key=lambda row: (row[-1][0], row[1]))
    return Loaded(
        header=_header(key, head),
        events=[Event(seq, kind, data, at, id) for _, seq, at, kind, id, _, _, _, data, *_ in events],
        calls=[_call(key, row) for row in calls],
        records={
            (row[3], row[4]): Record(row[3], row[4], row[8], guard(pk, row[2])) for row in kinds["record"]
        },
    )


def _header(key: ConversationKey, row: Row) -> Header:
    status, agent, holder, title, forked_from, metadata, settings, numbers = row[3:]
    pk, last_seq, commits, version, created_at, activity, tail, takeovers, *rest = numbers
    wake_at, fences, lease_until, forked_at = rest
    counters = (last_seq, commits, version, created_at, activity, tail)
    lease = (takeovers, wake_at, fences, holder, lease_until)
    profile = (title, metadata, settings, forked_from, forked_at)
    return header_of((pk, key.owner, key.id, *counters, status, agent, *lease, *profile))


def _call(key: ConversationKey, row: Row) -> Call:
    _, _, opened_at, call_id, name, status, executor, _, data, _, (_, step, expires_at) = row
    return Call(key, call_id, name, status, executor, step, data, opened_at, expires_at)
