"""What a model gets: the log without what was summarised, rewritten or undone, and always valid."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.errors import InvalidPayload
from holdfast.model.codec import decode, dumps
from holdfast.model.events import (
    Compaction,
    Payload,
    Reset,
    Resolution,
    Retract,
    Rewrite,
    Suspension,
    ToolResult,
)
from holdfast.model.messages import Message, Text, ToolCall
from holdfast.model.records import Event
from holdfast.views.log import Logged, Ranges, read, undone
from holdfast.views.repair import Turn, mended, repair

__all__ = ["Transcript", "Turn", "repair", "transcript"]

_READ = frozenset(
    (Message, ToolResult, Suspension, Resolution, Compaction, Rewrite, Retract, Reset),
)
_SUMMARY = "Summary of the conversation so far:\n\n"
_WAITS = {
    "approval": "This call waits for a person's approval and was not made yet.",
    "question": "This call waits for a person's answer.",
    "client": "This call waits for the client that makes it; there is no result yet.",
    "child": "This call waits for a sub-agent; there is no result yet.",
}


def transcript(events: Iterable[Event | Logged]) -> tuple[Turn, ...]:
    """
    What a model gets of these events: messages, each tool call followed by its one result.

    Events that a compaction, rewrite, retract or reset took out of the model's view are not in it. For any
    log, cut anywhere, every provider takes it; see ``repair``.

    >>> from holdfast.model import encode
    >>> [turn.text for turn in transcript([Event(1, "message", encode(Message("m1", "user", (Text("Hi"),))), 0)])]
    ['Hi']
    """
    fold = Transcript()
    for event in events:
        fold.apply(event)
    return fold.turns


class Transcript:
    """
    The same, kept up to date while the log grows.

    Start at the header's ``tail`` or at the beginning, and apply events in order; one that was applied
    already changes nothing.
    """

    def __init__(self) -> None:
        self._events: list[tuple[int, Payload]] = []
        self._seq = 0
        self._view: _View | None = None

    @property
    def seq(self) -> int:
        """The seq of the last event that was applied."""
        return self._seq

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What a model gets now."""
        return self._folded().turns

    @property
    def tail(self) -> int:
        """The oldest seq that must be read to make this transcript again; what the header's ``tail`` is for."""
        return self._folded().tail

    def apply(self, event: Event | Logged) -> None:
        """Take the next event of the log."""
        if event.seq <= self._seq:
            return
        self._seq = event.seq
        payload = read(event)
        if type(payload) in _READ:
            self._events.append((event.seq, payload))
            self._view = None

    def _folded(self) -> _View:
        if self._view is None:
            self._view = _fold(self._events)
        # Without anything to read again, only what comes next is needed.
        return self._view if self._view.turns else _View((), min(self._view.tail, self._seq + 1))


class _View(NamedTuple):
    turns: tuple[Turn, ...]
    tail: int


class _Slot(msgspec.Struct, frozen=True, gc=False):
    """A place in the model's view: where it stands, which event put it there, and what it shows."""

    anchor: int
    source: int
    shows: Turn | Compaction


def _fold(events: Sequence[tuple[int, Payload]]) -> _View:
    dead = undone((seq, payload) for seq, payload in events if type(payload) is Retract)
    slots = _Slots()
    waits: dict[str, Suspension] = {}
    answers: dict[str, Resolution] = {}
    for seq, payload in _alive(events, dead):
        kind = type(payload)
        if kind is Message or kind is ToolResult:
            assert isinstance(payload, (Message, ToolResult))
            slots.all.append(_Slot(seq, seq, payload))
            continue
        match payload:
            case Suspension():
                waits[payload.call_id] = payload
            case Resolution():
                waits.pop(payload.call_id, None)
                answers[payload.call_id] = payload
            case Compaction():
                slots.summarise(seq, payload)
            case Rewrite():
                slots.rewrite(seq, payload)
            case Reset():
                slots.all.clear()

    def missing(call: ToolCall) -> ToolResult:
        wait = waits.get(call.call_id)
        parts = () if wait is None else (Text(_WAITS[wait.kind]),)
        return ToolResult(call.call_id, "unknown", parts)

    turns = mended([_turn(slot) for slot in slots.all], missing)
    if any(answer.decision == "edit" or answer.reason for answer in answers.values()):
        turns = tuple(_explained(turn, answers) for turn in turns)
    return _View(turns, slots.tail)


def _alive(events: Sequence[tuple[int, Payload]], dead: Ranges) -> Iterable[tuple[int, Payload]]:
    return (event for event in events if event[0] not in dead) if dead else events


def _turn(slot: _Slot) -> Turn:
    shows = slot.shows
    if isinstance(shows, Compaction):
        text = _SUMMARY + shows.text if shows.text.strip() else ""
        return Message(f"summary-{slot.source}", "user", (Text(text),))
    return shows


def _explained(turn: Turn, answers: dict[str, Resolution]) -> Turn:
    """The original call stays as the model made it; what a person changed stands in its result."""
    if not isinstance(turn, ToolResult) or (answer := answers.get(turn.call_id)) is None:
        return turn
    notes = []
    if answer.decision == "edit":
        notes.append(f"A person changed the arguments of this call to: {dumps(answer.args).decode()}")
    if answer.reason and answer.reason.strip():
        notes.append(f"A person said: {answer.reason}")
    return replace(turn, parts=(*map(Text, notes), *turn.parts)) if notes else turn


class _Slots:
    """The model's view while it is made, ordered by anchor."""

    def __init__(self) -> None:
        self.all: list[_Slot] = []
        self._passed_over: list[tuple[int, int]] = []

    @property
    def tail(self) -> int:
        tail = min((slot.source for slot in self.all), default=2**63)
        # A summary that was passed over would be taken by a reader who does not see the greater one.
        for seq, greater in reversed(self._passed_over):
            if seq >= tail:
                tail = min(tail, greater)
        return tail

    def summarise(self, seq: int, summary: Compaction) -> None:
        """Of two summaries that overlap, the one that reaches further stands."""
        first, last = summary.from_seq, min(summary.to_seq, seq - 1)
        if first > last:
            return
        for slot in self.all:
            shows = slot.shows
            if isinstance(shows, Compaction) and shows.to_seq > last and slot.anchor <= last:
                self._passed_over.append((seq, slot.source))
                return
        here = self._between(first, last)
        self.all[here] = [_Slot(first, seq, replace(summary, to_seq=last)), *_kept_whole(self.all[here])]

    def rewrite(self, seq: int, rewrite: Rewrite) -> None:
        for change in rewrite.replacements:
            first, last = change.from_seq, min(change.to_seq, seq - 1)
            if first > last:
                continue
            new: list[_Slot] = []
            for entry in change.entries:
                try:
                    shows = decode(entry.type, bytes(entry.data))
                except InvalidPayload:
                    continue
                if isinstance(shows, (Message, ToolResult, Compaction)):
                    new.append(_Slot(first, seq, shows))
            self.all[self._between(first, last)] = new

    def _between(self, first: int, last: int) -> slice:
        return slice(
            bisect_left(self.all, first, key=lambda slot: slot.anchor),
            bisect_right(self.all, last, key=lambda slot: slot.anchor),
        )


def _kept_whole(slots: Sequence[_Slot]) -> list[_Slot]:
    """
    What a summary of these leaves: calls that have no result among them, and results of other calls.

    A summary never cuts between a call and its result (L45): a result that comes later than the summary
    would be lost otherwise.
    """
    answered = {slot.shows.call_id for slot in slots if isinstance(slot.shows, ToolResult)}
    gone: set[str] = set()
    open_calls: set[int] = set()
    for place, slot in enumerate(slots):
        shows = slot.shows
        if isinstance(shows, Message) and shows.role == "assistant":
            calls = {call.call_id for call in shows.calls if not call.unfinished}
            if calls <= answered:
                gone |= calls
            else:
                open_calls.add(place)
    return [
        slot
        for place, slot in enumerate(slots)
        if place in open_calls or (isinstance(slot.shows, ToolResult) and slot.shows.call_id not in gone)
    ]
