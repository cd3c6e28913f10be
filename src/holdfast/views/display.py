"""
What people see: rows, made from the log and from where the tool calls stand now.

A row is never taken away. A summary, a rewrite or a reset changes what a model reads, not what was said;
what was undone stays too, and is marked.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from holdfast.model.messages import JSON
from holdfast.model.records import FINAL, Call, CallStatus, Event
from holdfast.views.content import (
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
    "bound",
    "page",
    "row_content",
    "rows",
]

_CHANGES = frozenset((ToolStarted, Suspension, Resolution, ToolResult, Input, Retract, Reset))
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

    ``events`` must reach up to ``bound(before)`` and may begin anywhere: ``older`` leads on to what was not
    among them.

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


def bound(before: str | None) -> int | None:
    """
    The seq that the events of the page before a cursor must reach up to, itself excluded, as stores take it.

    >>> bound("7.0"), bound("7.2")
    (7, 8)

    Raises:
        InvalidInput: It is no cursor.
    """
    if before is None:
        return None
    seq, index = _place(before)
    return seq + 1 if index else seq


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
        self._is_marked = self._given != Marks()
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
        earlier = self._changed_by(event.seq, payload) if type(payload) in _CHANGES else []
        new = drawn(event.seq, event.at, payload)
        if self._is_marked:
            new = [_marked(row, self._given) for row in new]
        for row in new:
            content = row.content
            if type(content) is CallContent:
                self._cards[content.call_id] = row.id
            elif type(content) is ResultContent and content.outcome == "detached":
                self._placeholders[content.call_id] = row.id
            self._rows[row.id] = row
        if earlier:
            new = [*[self._rows[id] for id in dict.fromkeys(earlier)], *new]
        return tuple(new)

    def settle(self, calls: Iterable[Call]) -> tuple[Row, ...]:
        """Give each card the status that its call has in the store now; the rows that changed by it."""
        changed: list[str] = []
        for call in calls:
            id = self._cards.get(call.call_id)
            card = None if id is None else self._rows[id].content
            if isinstance(card, CallContent) and card.status != call.status:
                changed += self._move(call.call_id, call.status, {})
            if call.status in FINAL:
                changed += self._replace_placeholder(call.call_id)
        return tuple([self._rows[id] for id in dict.fromkeys(changed)])

    def _changed_by(self, seq: int, payload: Payload) -> list[str]:
        """Change what this event says of earlier rows; their ids."""
        if isinstance(payload, (ToolResult, Input)):
            if payload.call_id is None or payload.outcome is None:
                return []
            moved = self._move(payload.call_id, _STATUS[payload.outcome], {"outcome": payload.outcome})
            if self._placeholders and payload.outcome != "detached":
                moved += self._replace_placeholder(payload.call_id)
            return moved
        match payload:
            case ToolStarted():
                return self._move(payload.call_id, "executing", {"attempt": payload.attempt})
            case Suspension():
                waits = {"step": payload.step, "kind": payload.kind, "prompt": payload.prompt}
                return self._move(payload.call_id, "interrupted", {"waits": waits})
            case Resolution():
                said = {"decision": payload.decision, "actor": payload.actor, "reason": payload.reason}
                if payload.decision == "edit":
                    said["args"] = payload.args
                return self._move(payload.call_id, "pending", {"waits": None, "resolution": said})
            case Retract():
                self._retracts.append((seq, payload))
                return self._mark_all()
            case Reset():
                self._resets.append(seq)
                return self._mark_all()
            case _:
                return []

    def _move(self, call_id: str, status: CallStatus, metadata: dict[str, JSON]) -> list[str]:
        if (id := self._cards.get(call_id)) is None:
            return []
        row = self._rows[id]
        card = row.content
        assert isinstance(card, CallContent)
        if card.metadata:
            metadata = {**card.metadata, **metadata}
        card = CallContent(call_id, card.name, card.args, status, card.executor, metadata)
        self._rows[id] = replace(row, content=card)
        return [id]

    def _replace_placeholder(self, call_id: str) -> list[str]:
        if (id := self._placeholders.pop(call_id, None)) is None:
            return []
        held = self._rows[id].content
        assert isinstance(held, ResultContent)
        self._rows[id] = replace(self._rows[id], content=replace(held, placeholder=True))
        return [id]

    def _mark_all(self) -> list[str]:
        marks = self.marks
        changed = {id: new for id, row in self._rows.items() if (new := _marked(row, marks)) is not row}
        self._rows.update(changed)
        return list(changed)


def _marked(row: Row, marks: Marks) -> Row:
    mark: Literal["retracted", "reset"] | None = None
    if any(first <= row.seq <= last for first, last in marks.retracted):
        mark = "retracted"
    elif row.seq < marks.reset:
        mark = "reset"
    return row if row.mark == mark else replace(row, mark=mark)
