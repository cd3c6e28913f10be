"""Going back: a new conversation from an earlier point, or the same one as it was. Nothing is rewritten."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.clock import Clock
from holdfast.conversations.folding import VIEW, Folded, beside, results_of, whole_log
from holdfast.errors import Busy, InvalidInput
from holdfast.ids import ConversationKey
from holdfast.model import (
    MEDIA,
    OPEN,
    Header,
    Payload,
    Retract,
    RunEnded,
    ToolCall,
    ToolResult,
)
from holdfast.recording import CallFacts, appended, tool_name
from holdfast.store import MoveCall, Op, OpenCall, SetHeader, Store
from holdfast.views import Logged

_FORKED = "The conversation was forked before this call was made."
_REWOUND = "The conversation was taken back before this call was made."


async def fork(store: Store, key: ConversationKey, new_id: str, at: int | None) -> Header:
    """
    A new conversation of the same owner that starts with this one's events up to ``at``.

    It has no open calls, no open run and no queue: calls get the result that they had here, or say that
    they were not made.

    Raises:
        NotFound: There is no such conversation for this owner.
        AlreadyExists: There is one under ``new_id``.
        InvalidInput: The log ends before ``at``.
    """
    header = await store.header(key)
    at = header.last_seq if at is None else at
    _check_seq(at, header)
    log = [event async for event in whole_log(store, key, until=header.last_seq)]
    kept, after = log[:at], log[at:]
    before = Folded(kept)
    new: list[Payload] = [
        *results_of([call for call, done in before.calls if done is None], log, _FORKED),
    ]
    new += _closing(before, "The conversation was forked.")
    now = Folded([*kept, *_numbered(new, at, after)])
    ops: list[Op] = [*map(appended, new)]
    ops += _inherited(now.calls)
    ops += beside(tail=now.tail, marks=now.marks, state=now.state, view=0)
    ops.append(SetHeader(status="idle"))
    return await store.fork(key, new_id, at=at, collections=(MEDIA,), ops=ops)


async def rewind(
    store: Store, key: ConversationKey, to: int, *, actor: str | None, reason: str | None, clock: Clock
) -> None:
    """
    Undo every event after ``to``: models and people go on from there, and the log keeps it all.

    No call is open afterwards. Calls of messages that stay keep their result.

    Raises:
        NotFound: There is no such conversation for this owner.
        InvalidInput: The log ends before ``to``.
        Busy: An agent works on it.
        SeqConflict: Something was appended meanwhile.
        StaleRecord: What a model sees was changed meanwhile.
    """
    header = await store.header(key)
    _check_seq(to, header)
    if header.lease is not None and header.lease.until > clock():
        raise Busy(key)
    log = [event async for event in whole_log(store, key, until=header.last_seq)]
    rows = await store.calls(key, status=OPEN)
    view = await store.records(key, VIEW[0], keys=(VIEW[1],))
    base = view[0].revision if view else 0
    there = Folded(log[:to])
    stay = {call.call_id for call, _ in there.calls}
    # The one result that each call gets is undone with it, unless its message stays.
    undone: list[Payload] = [ToolResult(row.call_id, "cancelled") for row in rows if row.call_id not in stay]
    last = header.last_seq + len(undone)
    new: list[Payload] = [*undone, Retract(base, to + 1, last, reason, actor)]
    new += results_of([call for call, done in there.calls if done is None], log, _REWOUND)
    new += _closing(there, "The conversation was taken back.")
    now = Folded([*log, *_numbered(new, header.last_seq, log)])
    ops: list[Op] = [
        *(MoveCall(row.call_id, "cancelled", frozenset((row.status,)), row.step) for row in rows),
        *map(appended, new),
        *beside(tail=now.tail, marks=now.marks, state=now.state, view=base),
        SetHeader(status="idle"),
    ]
    await store.commit(key, ops, expect=header.last_seq)


def _closing(folded: Folded, reason: str) -> list[Payload]:
    """What ends the open run and drops the queue."""
    new: list[Payload] = []
    if (run := folded.open_run) is not None:
        new.append(RunEnded(run.run, "cancelled", reason))
    new += (Retract(0, seq, seq, reason) for seq in folded.waiting_inputs)
    return new


def _numbered(payloads: list[Payload], last_seq: int, log: list[Logged]) -> list[Logged]:
    at = log[-1].at if log else 0
    return [Logged(seq, at, payload) for seq, payload in enumerate(payloads, last_seq + 1)]


def _inherited(calls: Iterable[tuple[ToolCall, ToolResult | None]]) -> list[Op]:
    """
    The rows of calls that a fork inherits, so that an older page shows where they ended.

    Only what completed can be opened as what it is; of the rest the log has to tell.
    """
    # A provider's id can repeat (L15): the row is of the last call.
    ended = {call.call_id: call for call, result in calls if result is not None and result.outcome == "ok"}
    return [
        OpenCall(
            call.call_id,
            tool_name(call),
            "completed",
            call.executor,
            CallFacts(args=call.raw_args if call.args is None else call.args).to_bytes(),
        )
        for call in ended.values()
    ]


def _check_seq(seq: int, header: Header) -> None:
    if type(seq) is not int or not 0 <= seq <= header.last_seq:
        raise InvalidInput(f"there is no event {seq!r} to go back to; the log ends at {header.last_seq}")
