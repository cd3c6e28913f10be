"""
What stands beside the log so that it need not be read from the beginning.

The header's ``tail`` says from where a transcript can be made; the state up to there and what was undone are
kept as records. All three are written together, in the commit that changes what a model sees.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.ids import ConversationKey
from holdfast.model import (
    Call,
    CallStatus,
    Event,
    Input,
    Message,
    Outcome,
    Record,
    Reset,
    Retract,
    RunEnded,
    RunStarted,
    State,
    Text,
    ToolCall,
    ToolResult,
    ToolStarted,
    UnknownEvent,
    decode_record,
    encode,
)
from holdfast.store import ABSENT, Op, PutRecord, SetHeader, Store
from holdfast.views import Logged, Marks, StateFold, Transcript, logged
from holdfast.views.log import Ranges, undone

VIEW: Final = ("view", "view")
STATE: Final = ("state", "state")
RECORDS: Final = (VIEW, STATE)
"""What is loaded with a conversation."""

_PAGE = 1_000
_STATUS: dict[Outcome, CallStatus] = {
    "ok": "completed",
    "error": "failed",
    "rejected": "failed",
    "unknown": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}

_marks = msgspec.json.Decoder(Marks)


async def whole_log(
    store: Store, key: ConversationKey, *, after: int = 0, until: int | None = None
) -> AsyncIterator[Logged]:
    """Every event with ``after < seq <= until``, read in pages."""
    end = (await store.header(key)).last_seq if until is None else until
    while after < end:
        page = await store.events(key, after=after, before=min(after + _PAGE, end) + 1)
        for event in page:
            yield logged(event)
        after += _PAGE


def read_marks(record: Record | None) -> Marks:
    """What was undone, as the record says."""
    return Marks() if record is None else _marks.decode(record.data)


def read_state(record: Record | None) -> State | None:
    """The state that was kept, or None if there is none that this version can read."""
    try:
        return None if record is None else decode_record(State, record.data)
    except InvalidPayload:
        return None


def beside(*, tail: int, marks: Marks, state: State, view: int) -> list[Op]:
    """
    The operations that write what stands beside the log.

    ``view`` is the revision of the view that they were computed from: of two changes of what a model
    sees that were computed from the same one, the second fails with ``StaleRecord``.
    """
    return [
        PutRecord(*VIEW, msgspec.json.encode(marks), when=view or ABSENT),
        PutRecord(*STATE, encode(state)),
        SetHeader(tail=tail),
    ]


class Folded:
    """A whole log, folded to all that a branch of it needs."""

    def __init__(self, log: Sequence[Logged]) -> None:
        self.last_seq = log[-1].seq if log else 0
        transcript, state = Transcript(), StateFold()
        for event in log:
            transcript.apply(event)
            state.apply(event)
        self.state = state.state
        dead = undone((e.seq, e.payload) for e in log if isinstance(e.payload, Retract))
        self.alive = [event for event in log if event.seq not in dead]
        resets = [event.seq for event in self.alive if isinstance(event.payload, Reset)]
        self.marks = Marks(tuple(dead), max(resets, default=0))
        self.tail = min([transcript.tail, *self.waiting_inputs, *self._open_runs])

    @property
    def waiting_inputs(self) -> list[int]:
        """Input that no message delivered."""
        delivered = {
            seq for event in self.alive if isinstance(event.payload, Message) for seq in event.payload.inputs
        }
        return [e.seq for e in self.alive if isinstance(e.payload, Input) and e.seq not in delivered]

    @property
    def open_run(self) -> RunStarted | None:
        """The run that has not ended."""
        ended = {e.payload.run for e in self.alive if isinstance(e.payload, RunEnded)}
        runs = [e.payload for e in self.alive if isinstance(e.payload, RunStarted)]
        return next((run for run in reversed(runs) if run.run not in ended), None)

    @property
    def _open_runs(self) -> list[int]:
        ended = {e.payload.run for e in self.alive if isinstance(e.payload, RunEnded)}
        return [
            event.seq
            for event in self.alive
            if isinstance(event.payload, RunStarted) and event.payload.run not in ended
        ]

    @property
    def calls(self) -> list[tuple[ToolCall, ToolResult | None]]:
        """Every call that was made, with its result. A placeholder is none."""
        results = {
            e.payload.call_id: e.payload
            for e in self.alive
            if isinstance(e.payload, ToolResult) and e.payload.outcome != "detached"
        }
        return [
            (call, results.get(call.call_id))
            for event in self.alive
            if isinstance(event.payload, Message) and event.payload.role == "assistant"
            for call in event.payload.calls
            if not call.unfinished
        ]


def results_of(calls: Iterable[ToolCall], log: Iterable[Logged], why: str) -> list[ToolResult]:
    """
    The results of calls that a cut left without one.

    What happened after the cut still happened, so a result that came later stays. A call that was started
    and has none may have had its effect.
    """
    later: dict[str, ToolResult] = {}
    started: set[str] = set()
    for event in log:
        if isinstance(event.payload, ToolResult) and event.payload.outcome != "detached":
            later[event.payload.call_id] = event.payload
        elif isinstance(event.payload, ToolStarted):
            started.add(event.payload.call_id)
    return [
        later.get(call.call_id)
        or (
            ToolResult(call.call_id, "unknown")
            if call.call_id in started
            else ToolResult(call.call_id, "cancelled", (Text(why),))
        )
        for call in calls
    ]


def in_effect(events: Iterable[Event], marks: Marks) -> list[Event | Logged]:
    """
    The events of a page, without what undid others and was undone itself.

    What undid it may lie after the page; the marks know.
    """
    dead = Ranges(marks.retracted)
    return [
        Logged(event.seq, event.at, UnknownEvent(event.type, b"{}"))
        if event.type in ("retract", "reset") and event.seq in dead
        else event
        for event in events
    ]


async def without_row(store: Store, key: ConversationKey, call_ids: set[str], after: int) -> list[Call]:
    """Where calls that have no row ended, as events after ``after`` say; those that did not are left out."""
    found: list[Call] = []
    if not call_ids:
        return found
    async for event in whole_log(store, key, after=after):
        said = event.payload
        if isinstance(said, ToolResult) and said.call_id in call_ids and said.outcome in _STATUS:
            found.append(Call(key, said.call_id, "", _STATUS[said.outcome]))
            call_ids = call_ids - {said.call_id}
            if not call_ids:
                break
    return found
