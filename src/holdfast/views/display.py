"""
What people see: rows, made from the log and from where the tool calls stand now.

A row is never taken away. A summary, a rewrite or a reset changes what a model reads, not what was said;
what was undone stays too, and is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.model.events import (
    Input,
    Outcome,
    Payload,
    Reset,
    Resolution,
    Retract,
    Suspension,
    ToolResult,
    ToolStarted,
)
from holdfast.model.records import FINAL, Call, CallStatus, Event
from holdfast.views.content import (
    ROW_KINDS,
    CallContent,
    Content,
    DataContent,
    ErrorContent,
    FileContent,
    ImageContent,
    NotificationContent,
    ResultContent,
    Row,
    TextContent,
    ThinkingContent,
    TodosContent,
    row_content,
)
from holdfast.views.drawing import drawn
from holdfast.views.log import Logged, Ranges, read, undone

__all__ = [
    "ROW_KINDS",
    "CallContent",
    "Content",
    "DataContent",
    "ErrorContent",
    "FileContent",
    "ImageContent",
    "Marks",
    "NotificationContent",
    "Page",
    "ResultContent",
    "Row",
    "Rows",
    "TextContent",
    "ThinkingContent",
    "TodosContent",
    "page",
    "row_content",
    "rows",
]

_STATUS: dict[Outcome, CallStatus] = {
    "ok": "completed",
    "error": "failed",
    "rejected": "failed",
    "unknown": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
    "detached": "detached",
}


class Marks(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What later events did to earlier rows: ranges that were undone, and the seq of the last reset.

    Keep it where the ``view`` record is, so that an old page can be marked without reading the log after it.
    """

    retracted: tuple[tuple[int, int], ...] = ()
    reset: int = 0


class Page(msgspec.Struct, frozen=True):
    """Some rows in order, and the cursor of the page before them; None if they are the first."""

    rows: tuple[Row, ...]
    older: str | None = None


def rows(
    events: Iterable[Event | Logged], calls: Iterable[Call] = (), marks: Marks | None = None
) -> tuple[Row, ...]:
    """
    The rows of these events in order.

    ``calls`` are the rows of the store: a card has the status that its call has *now*, although the events
    that brought it there may not be among these. Without them it is folded from the events.

    >>> from holdfast.model import Message, Text, encode
    >>> [row] = rows([Event(1, "message", encode(Message("m1", "user", (Text("Hi"),))), 0)])
    >>> row.id, row.role, row.kind, row.content.text
    ('1.0', 'user', 'text', 'Hi')
    """
    fold = Rows(marks)
    for event in events:
        fold.apply(event)
    fold.settle(calls)
    return fold.rows


def page(
    events: Iterable[Event | Logged],
    calls: Iterable[Call] = (),
    marks: Marks | None = None,
    *,
    before: str | None = None,
    limit: int = 50,
) -> Page:
    """
    The newest rows before a cursor.

    ``events`` must reach up to the cursor's event, whose seq is ``int(before.split(".")[0])``, and may begin
    anywhere: ``older`` leads on to what was not among them.

    Raises:
        InvalidInput: ``before`` is no cursor, or the limit is below 1.
    """
    if limit < 1:
        raise InvalidInput(f"a page has at least one row, not {limit}")
    events = list(events)
    shown = rows(events, calls, marks)
    if before is not None:
        end = _place(before)
        shown = tuple(row for row in shown if _place(row.id) < end)
    if len(shown) > limit:
        shown = shown[-limit:]
        return Page(shown, shown[0].id)
    return Page(shown, f"{events[0].seq}.0" if events and events[0].seq > 1 else None)


def _place(id: str) -> tuple[int, int]:
    seq, _, index = id.partition(".")
    if not (seq.isdecimal() and index.isdecimal()):
        raise InvalidInput(f"{id!r} is no cursor; use the id of a row, or what a page gave as older")
    return int(seq), int(index)


class Rows:
    """
    The same, kept up to date while the log grows.

    Apply events in order; give the calls to ``settle`` after those that were read, before those that follow.
    """

    def __init__(self, marks: Marks | None = None) -> None:
        self._given = marks or Marks()
        self._rows: dict[str, Row] = {}
        self._cards: dict[str, str] = {}
        self._placeholders: dict[str, str] = {}
        self._retracts: list[tuple[int, Retract]] = []
        self._resets: list[int] = []
        self._seq = 0

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows in order."""
        return tuple(self._rows.values())

    @property
    def marks(self) -> Marks:
        """What the events seen so far did to earlier rows; give it to ``page`` for older ones."""
        dead = undone(self._retracts)
        resets = [seq for seq in self._resets if seq not in dead]
        ranges = Ranges([*dead, *self._given.retracted])
        return Marks(tuple(ranges), max([self._given.reset, *resets]))

    def apply(self, event: Event | Logged) -> tuple[Row, ...]:
        """
        Take the next event of the log; the rows that are new or changed, as a subscriber needs them.

        One that was applied already changes nothing.
        """
        if event.seq <= self._seq:
            return ()
        self._seq = event.seq
        payload = read(event)
        changed = dict.fromkeys(self._changed_by(event.seq, payload))
        for row in drawn(event.seq, event.at, payload):
            row = self._marked(row, self._given)
            if isinstance(row.content, CallContent):
                self._cards[row.content.call_id] = row.id
            elif isinstance(row.content, ResultContent) and row.content.outcome == "detached":
                self._placeholders[row.content.call_id] = row.id
            self._rows[row.id] = row
            changed[row.id] = None
        return tuple(self._rows[id] for id in changed)

    def settle(self, calls: Iterable[Call]) -> tuple[Row, ...]:
        """Give each card the status that its call has in the store now; the rows that changed by it."""
        changed: dict[str, None] = {}
        for call in calls:
            card = self._card(call.call_id)
            if card is not None and card.status != call.status:
                changed.update(dict.fromkeys(self._move(call.call_id, call.status)))
            if call.status in FINAL:
                changed.update(dict.fromkeys(self._replace_placeholder(call.call_id)))
        return tuple(self._rows[id] for id in changed)

    def _card(self, call_id: str) -> CallContent | None:
        if (id := self._cards.get(call_id)) is None:
            return None
        card = self._rows[id].content
        return card if isinstance(card, CallContent) else None

    def _changed_by(self, seq: int, payload: Payload) -> Iterator[str]:
        match payload:
            case ToolStarted():
                yield from self._move(payload.call_id, "executing", attempt=payload.attempt)
            case Suspension():
                waits = {"step": payload.step, "kind": payload.kind, "prompt": payload.prompt}
                yield from self._move(payload.call_id, "interrupted", waits=waits)
            case Resolution():
                said = {"decision": payload.decision, "actor": payload.actor, "reason": payload.reason}
                if payload.decision == "edit":
                    said["args"] = payload.args
                yield from self._move(payload.call_id, "pending", waits=None, resolution=said)
            case ToolResult() | Input(call_id=str(), outcome=str()):
                assert payload.call_id is not None
                assert payload.outcome is not None
                yield from self._move(payload.call_id, _STATUS[payload.outcome], outcome=payload.outcome)
                if payload.outcome != "detached":
                    yield from self._replace_placeholder(payload.call_id)
            case Retract():
                self._retracts.append((seq, payload))
                yield from self._mark_all()
            case Reset():
                self._resets.append(seq)
                yield from self._mark_all()

    def _move(self, call_id: str, status: CallStatus, **metadata: object) -> Iterator[str]:
        if (card := self._card(call_id)) is None:
            return
        id = self._cards[call_id]
        card = replace(card, status=status, metadata={**card.metadata, **metadata})
        self._rows[id] = replace(self._rows[id], content=card)
        yield id

    def _replace_placeholder(self, call_id: str) -> Iterator[str]:
        if (id := self._placeholders.pop(call_id, None)) is not None:
            held = self._rows[id].content
            assert isinstance(held, ResultContent)
            self._rows[id] = replace(self._rows[id], content=replace(held, placeholder=True))
            yield id

    def _mark_all(self) -> Iterator[str]:
        marks = self.marks
        for id, row in self._rows.items():
            marked = self._marked(row, marks)
            if marked is not row:
                self._rows[id] = marked
                yield id

    def _marked(self, row: Row, marks: Marks) -> Row:
        mark: Literal["retracted", "reset"] | None = None
        if any(first <= row.seq <= last for first, last in marks.retracted):
            mark = "retracted"
        elif row.seq < marks.reset:
            mark = "reset"
        return row if row.mark == mark else replace(row, mark=mark)
