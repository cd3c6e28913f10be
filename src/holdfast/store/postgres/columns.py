"""The plans of a group as columns: one array for each parameter of the statement that writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.store.ops import SetHeader
from holdfast.store.sql.decide import Plan
from holdfast.store.sql.parts import (
    Rows,
    drop_rows,
    event_rows,
    moved_rows,
    new_field,
    opened_rows,
    profile_rows,
    put_rows,
    redacted_rows,
    tag_rows,
    token_rows,
    untag_rows,
    wake_at,
)

Columns = dict[str, list[Any]]

_HEAD = (
    "pk commits fences held last_seq activity version status agent tail takeovers rest release wake text_at "
    "redactions"
)
_NEW_HEAD = (
    "pk owner id last_seq version created_at activity tail status agent takeovers wake text_at title metadata "
    "settings"
)


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
        wake_at(plan),
        plan.first_text,
        len(plan.redacted),
    )


def new_heads(plans: Sequence[Plan]) -> Columns:
    """The rows of conversations that are created."""
    return columns(_NEW_HEAD, map(_new_head, plans))


def _new_head(plan: Plan) -> tuple[Any, ...]:
    change = plan.change
    later = change.net.header

    return (
        plan.head.pk,
        change.key.owner,
        change.key.id,
        plan.commit.last_seq,
        0 if later is None else plan.commits,
        change.time(plan.now),
        plan.activity,
        new_field(change, "tail"),
        new_field(change, "status"),
        new_field(change, "agent"),
        new_field(change, "takeovers"),
        wake_at(plan),
        plan.first_text,
        new_field(change, "title"),
        new_field(change, "metadata"),
        new_field(change, "settings"),
    )


_PARTS: dict[str, tuple[Callable[[Plan], Rows], str]] = {
    "event": (event_rows, "pk seq type data at id search"),
    "open": (opened_rows, "pk owner call_id name status executor step data at expires_at"),
    "move": (moved_rows, "pk call_id status step data expires_at"),
    "drop": (drop_rows, "pk collection first until"),
    "put": (put_rows, "pk collection key data"),
    "untag": (untag_rows, "pk mark ref"),
    "tag": (tag_rows, "pk mark ref name value"),
    "profile": (profile_rows, "pk title metadata settings"),
    "redact": (redacted_rows, "pk seq data"),
    "token": (token_rows, "pk token digest result"),
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
