"""The row of a conversation: as it was read and locked, and as a commit leaves it."""

from __future__ import annotations

from typing import Any

from holdfast.store.change import Change
from holdfast.store.mysql.schema import WINDOW
from holdfast.store.ops import SetHeader
from holdfast.store.sql.decide import Head, Plan
from holdfast.store.sql.parts import new_field, wake_at


class LockedHead(Head):
    """All of the row that a commit can change. The columns of the query ``look``, in their order."""

    listed: int = 0
    tail: int = 1
    status: str = "idle"
    agent: str = ""
    takeovers: int = 0
    redactions: int = 0
    wake_at: int | None = None
    lease_until: int = 0
    unindexed_from: int | None = None


def new_head(change: Change, pk: int, now: int) -> LockedHead:
    """The row of a conversation that was created a moment ago."""
    then = change.time(now)
    return LockedHead(
        pk,
        activity=then,
        listed=then,
        tail=new_field(change, "tail"),
        status=new_field(change, "status"),
        agent=new_field(change, "agent"),
        takeovers=new_field(change, "takeovers"),
    )


def is_brief(plan: Plan) -> bool:
    """Whether a commit leaves most of the row as it is."""
    net = plan.change.net
    return not (plan.creates or net.header or net.rest or net.wake or plan.redacted)


def brief_head(plan: Plan, head: LockedHead) -> tuple[Any, ...]:
    """The columns that every commit changes."""
    activity = plan.activity
    listed = activity if activity - head.listed > WINDOW else head.listed
    unindexed = plan.first_text if head.unindexed_from is None else head.unindexed_from
    return head.pk, plan.commit.last_seq, plan.commits, activity, listed, unindexed


def whole_head(plan: Plan, head: LockedHead) -> tuple[Any, ...]:
    """All columns that a commit can change."""
    net = plan.change.net
    header, rest, wake = net.header or SetHeader(), net.rest, wake_at(plan)
    if rest is None:
        wake = min((at for at in (wake, head.wake_at) if at is not None), default=None)
    released = rest is not None and rest.release
    lease_until = 0 if released else head.lease_until
    return (
        *brief_head(plan, head),
        head.version if net.header is None else plan.commits,
        head.tail if header.tail is None else header.tail,
        head.status if header.status is None else header.status,
        head.agent if header.agent is None else header.agent,
        head.takeovers if header.takeovers is None else header.takeovers,
        head.redactions + len(plan.redacted),
        wake,
        None if released else head.holder,
        lease_until,
        None if wake is None else max(wake, lease_until),
    )
