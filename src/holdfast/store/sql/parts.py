"""The rows that a plan writes, the same for every dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.clock import microseconds
from holdfast.store.change import Change
from holdfast.store.search import locate
from holdfast.store.sql.database import after_prefix, digest
from holdfast.store.sql.decide import Plan, encode_commit

Rows = Iterator[tuple[Any, ...]]

_BLANK = {
    "title": "",
    "status": "idle",
    "agent": "",
    "metadata": b"{}",
    "settings": b"{}",
    "tail": 1,
    "takeovers": 0,
}


def new_field(change: Change, name: str) -> Any:
    """A field of the header of a conversation that is created."""
    given = (getattr(header, name) for header in (change.net.header, change.create) if header is not None)
    return next((value for value in given if value is not None), _BLANK[name])


def wake_at(plan: Plan) -> int | None:
    """When the commit says that the conversation has work."""
    wake = plan.change.net.wake
    return None if wake is None else plan.now + microseconds(wake.after)


def event_rows(plan: Plan) -> Rows:
    """New events, with where their search text stands."""
    for seq, op in plan.events:
        search = locate(op.text, op.data) if op.text else None
        yield plan.head.pk, seq, op.type, op.data, plan.commit.at, op.id, search


def opened_rows(plan: Plan) -> Rows:
    """New calls."""
    for c in plan.opened:
        what = (c.call_id, c.name, c.status, c.executor, c.step, c.data)
        yield plan.head.pk, c.key.owner, *what, c.opened_at, c.expires_at


def moved_rows(plan: Plan) -> Rows:
    """Calls as they are after their moves."""
    for c in plan.moved:
        yield plan.head.pk, c.call_id, c.status, c.step, c.data, c.expires_at


def drop_rows(plan: Plan) -> Rows:
    """The ranges of keys whose records go."""
    for drop in plan.change.net.drops:
        if drop.key is not None:
            # Nothing lies between a key and the same key with the least character behind it.
            yield plan.head.pk, drop.collection, drop.key, drop.key + "\x01"
        else:
            prefix = drop.prefix or ""
            yield plan.head.pk, drop.collection, prefix, after_prefix(prefix)


def put_rows(plan: Plan) -> Rows:
    """Records that are written."""
    for put in plan.puts:
        yield plan.head.pk, put.collection, put.key, put.data


def untag_rows(plan: Plan) -> Rows:
    """Tags that go; a ref of None is every one."""
    for untag in plan.change.net.untags:
        yield plan.head.pk, digest(plan.change.key.owner, untag.name, untag.value), untag.ref


def tag_rows(plan: Plan) -> Rows:
    """New tags."""
    for tag in plan.change.net.tags:
        mark = digest(plan.change.key.owner, tag.name, tag.value)
        yield plan.head.pk, mark, tag.ref, tag.name, tag.value


def profile_rows(plan: Plan) -> Rows:
    """Titles, metadata and settings that a header sets."""
    header = plan.change.net.header
    if header is not None and (header.title, header.metadata, header.settings) != (None, None, None):
        yield plan.head.pk, header.title, header.metadata, header.settings


def redacted_rows(plan: Plan) -> Rows:
    """The tombstones of redacted events."""
    for seq, data in plan.redacted:
        yield plan.head.pk, seq, data


def token_rows(plan: Plan) -> Rows:
    """What a token stands for from now on."""
    if plan.change.token is not None:
        yield plan.head.pk, plan.change.token, plan.change.digest(), encode_commit(plan.commit)
