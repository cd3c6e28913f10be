"""The plans of a group as columns: one array for each parameter of the statement that writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from holdfast.clock import microseconds
from holdfast.store.ops import SetHeader
from holdfast.store.search import locate
from holdfast.store.sql.database import after_prefix, digest
from holdfast.store.sql.decide import Plan, encode_commit

Columns = dict[str, list[Any]]
Rows = Iterator[tuple[Any, ...]]

_HEAD = (
    "pk commits fences held last_seq activity version status agent tail takeovers rest release wake text_at "
    "redactions"
)
_NEW_HEAD = (
    "pk owner id last_seq version created_at activity tail status agent takeovers wake text_at title metadata "
    "settings"
)
_BLANK = {
    "title": "",
    "status": "idle",
    "agent": "",
    "metadata": b"{}",
    "settings": b"{}",
    "tail": 1,
    "takeovers": 0,
}


def columns(names: str, rows: Iterable[Sequence[Any]], *, prefix: str = "") -> Columns:
    """Rows, turned into one list for each name."""
    fields = names.split()
    turned = list(zip(*rows, strict=True)) or [()] * len(fields)
    return {prefix + field: list(column) for field, column in zip(fields, turned, strict=True)}


def changed_heads(plans: Sequence[Plan]) -> Columns:
    """How the rows of conversations change, and what they must be for that."""
    return columns(_HEAD, map(_changed_head, plans))


def _changed_head(plan: Plan) -> tuple[Any, ...]:
    net, head = plan.change.net, plan.head
    header = net.header or SetHeader()
    return (
        head.pk,
        head.commits,
        head.fences,
        head.holder is not None,
        plan.commit.last_seq,
        plan.activity,
        plan.commits if net.header is not None else None,
        header.status,
        header.agent,
        header.tail,
        header.takeovers,
        net.rest is not None,
        net.rest is not None and net.rest.release,
        _wake(plan),
        plan.first_text,
        len(plan.redacted),
    )


def new_heads(plans: Sequence[Plan]) -> Columns:
    """The rows of conversations that are created."""
    return columns(_NEW_HEAD, map(_new_head, plans))


def _new_head(plan: Plan) -> tuple[Any, ...]:
    change = plan.change
    later = change.net.header

    def field(name: str) -> Any:
        given = (getattr(header, name) for header in (later, change.create) if header is not None)
        return next((value for value in given if value is not None), _BLANK[name])

    return (
        plan.head.pk,
        change.key.owner,
        change.key.id,
        plan.commit.last_seq,
        0 if later is None else plan.commits,
        plan.now,
        plan.activity,
        field("tail"),
        field("status"),
        field("agent"),
        field("takeovers"),
        _wake(plan),
        plan.first_text,
        field("title"),
        field("metadata"),
        field("settings"),
    )


def _wake(plan: Plan) -> int | None:
    wake = plan.change.net.wake
    return None if wake is None else plan.now + microseconds(wake.after)


def _events(plan: Plan) -> Rows:
    for seq, op in plan.events:
        search = locate(op.text, op.data) if op.text else None
        yield plan.head.pk, seq, op.type, op.data, plan.commit.at, op.id, search


def _opened(plan: Plan) -> Rows:
    for c in plan.opened:
        what = (c.call_id, c.name, c.status, c.executor, c.step, c.data)
        yield plan.head.pk, c.key.owner, *what, c.opened_at, c.expires_at


def _moved(plan: Plan) -> Rows:
    for c in plan.moved:
        yield plan.head.pk, c.call_id, c.status, c.step, c.data, c.expires_at


def _drops(plan: Plan) -> Rows:
    for drop in plan.change.net.drops:
        if drop.key is not None:
            # Nothing lies between a key and the same key with the least character behind it.
            yield plan.head.pk, drop.collection, drop.key, drop.key + "\x01"
        else:
            prefix = drop.prefix or ""
            yield plan.head.pk, drop.collection, prefix, after_prefix(prefix)


def _puts(plan: Plan) -> Rows:
    for put in plan.puts:
        yield plan.head.pk, put.collection, put.key, put.data


def _untags(plan: Plan) -> Rows:
    for untag in plan.change.net.untags:
        yield plan.head.pk, digest(plan.change.key.owner, untag.name, untag.value), untag.ref


def _tags(plan: Plan) -> Rows:
    for tag in plan.change.net.tags:
        mark = digest(plan.change.key.owner, tag.name, tag.value)
        yield plan.head.pk, mark, tag.ref, tag.name, tag.value


def _profiles(plan: Plan) -> Rows:
    header = plan.change.net.header
    if header is not None and (header.title, header.metadata, header.settings) != (None, None, None):
        yield plan.head.pk, header.title, header.metadata, header.settings


def _redacted(plan: Plan) -> Rows:
    for seq, data in plan.redacted:
        yield plan.head.pk, seq, data


def _tokens(plan: Plan) -> Rows:
    if plan.change.token is not None:
        yield plan.head.pk, plan.change.token, plan.change.digest(), encode_commit(plan.commit)


_PARTS: dict[str, tuple[Callable[[Plan], Rows], str]] = {
    "event": (_events, "pk seq type data at id search"),
    "open": (_opened, "pk owner call_id name status executor step data at expires_at"),
    "move": (_moved, "pk call_id status step data expires_at"),
    "drop": (_drops, "pk collection first until"),
    "put": (_puts, "pk collection key data"),
    "untag": (_untags, "pk mark ref"),
    "tag": (_tags, "pk mark ref name value"),
    "profile": (_profiles, "pk title metadata settings"),
    "redact": (_redacted, "pk seq data"),
    "token": (_tokens, "pk token digest result"),
}


def parts(plans: Sequence[Plan]) -> tuple[list[str], Columns]:
    """
    What is written beside the heads: the names of the pieces that are needed, and all columns.

    A piece can ask for the columns of another one that is empty.
    """
    needed: list[str] = []
    filled: Columns = {}
    for name, (rows_of, fields) in _PARTS.items():
        rows = [row for plan in plans for row in rows_of(plan)]
        if rows:
            needed.append(f"write_{name}")
        filled |= columns(fields, rows, prefix=f"{name}_")
    return needed, filled
