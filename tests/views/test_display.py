"""Rows for people."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.views.logs import answers, asks, log, logs, says, user

from holdfast.errors import InvalidInput, InvalidPayload
from holdfast.ids import ConversationKey
from holdfast.model import (
    Call,
    CallStatus,
    Compaction,
    Custom,
    Data,
    Event,
    Failure,
    File,
    Image,
    Input,
    Message,
    NoticeRow,
    Redacted,
    Replacement,
    Reset,
    Resolution,
    Retract,
    Rewrite,
    RunEnded,
    StatePatch,
    StopReason,
    Suspension,
    Text,
    Thinking,
    Todo,
    ToolCall,
    ToolResult,
    ToolStarted,
    Url,
)
from holdfast.views import Marks, Row, Rows, bound, page, rows
from holdfast.views.content import ROW_KINDS
from holdfast.views.display import (
    CallContent,
    ErrorContent,
    NotificationContent,
    ResultContent,
    TextContent,
    row_content,
)

KEY = ConversationKey("ada", "c-1")


def call(call_id: str, status: CallStatus) -> Call:
    return Call(KEY, call_id, "book", status)


def card(shown: tuple[Row, ...]) -> CallContent:
    [found] = [row.content for row in shown if isinstance(row.content, CallContent)]
    return found


def test_one_message_gives_several_rows_in_order_with_stable_ids() -> None:
    """S21"""
    parts = (
        Thinking("hm"),
        Text("Here."),
        Image(Url("https://x.test/a.png")),
        File(Url("https://x.test/a.pdf")),
        Data({"a": 1}),
        Custom("map", 1),
        ToolCall("c1", "book"),
    )

    shown = rows(log(user("hi"), Message("a", "assistant", parts)))

    assert [row.id for row in shown] == ["1.0", *(f"2.{index}" for index in range(7))]
    assert [row.kind for row in shown[1:]] == [
        *("thinking", "text", "image", "file_reference", "structured_data", "structured_data", "tool_call")
    ]


def test_a_card_goes_from_pending_to_its_end_and_collects_what_is_known() -> None:
    """S22"""
    events = log(
        asks("c1"),
        Suspension("c1", 1, "approval", prompt="Book?"),
        Resolution("c1", 1, "approve", actor="ada"),
        ToolStarted("c1", 2),
        answers("c1"),
    )

    seen = [card(rows(events[:end])).status for end in range(1, 6)]
    last = card(rows(events))

    assert seen == ["pending", "interrupted", "pending", "executing", "completed"]
    assert last.metadata["attempt"] == 2
    assert last.metadata["resolution"]["actor"] == "ada"
    assert last.metadata["outcome"] == "ok"


@pytest.mark.parametrize("status", ["failed", "cancelled", "interrupted", "expired"])
def test_an_older_page_shows_the_status_that_the_call_has_now(status: CallStatus) -> None:
    """S22, S26: the events that brought it there are on a newer page."""
    assert card(rows(log(asks("c1")), [call("c1", status)])).status == status


def test_live_events_after_the_calls_were_read_move_the_card_on() -> None:
    fold = Rows()
    for event in log(asks("c1")):
        fold.apply(event)
    fold.settle([call("c1", "executing")])

    changed = fold.apply(log(answers("c1"), first=2)[0])

    assert [row.id for row in changed] == ["1.0", "2.0"]
    assert card(fold.rows).status == "completed"


def test_a_placeholder_is_known_as_one_when_the_real_result_is_there() -> None:
    """S25"""
    detached = [asks("c1"), ToolResult("c1", "detached", (Text("later"),))]
    real = Input((Text("done"),), "task", call_id="c1", outcome="ok")

    def placeholders(shown: tuple[Row, ...]) -> list[bool]:
        return [row.content.placeholder for row in shown if isinstance(row.content, ResultContent)]

    assert placeholders(rows(log(*detached))) == [False]
    assert placeholders(rows(log(*detached, real))) == [True, False]
    assert placeholders(rows(log(*detached), [call("c1", "completed")])) == [True]


def test_rows_never_shrink_because_the_models_view_did() -> None:
    """S26, L45"""
    said = [user("1"), says("2"), user("3")]
    changes = [Compaction(0, 1, 2, "12"), Rewrite(0, (Replacement(1, 3),))]

    assert rows(log(*said, *changes)) == rows(log(*said))


def test_what_was_undone_or_lies_before_a_reset_stays_and_is_marked() -> None:
    shown = rows(log(user("1"), user("2"), Retract(0, 2, 2), Reset(0), user("5")))

    assert [(row.seq, row.mark) for row in shown] == [(1, "reset"), (2, "retracted"), (5, None)]


def test_an_undo_that_was_undone_leaves_no_mark() -> None:
    shown = rows(log(user("1"), Retract(0, 1, 1), Retract(0, 2, 2)))

    assert [row.mark for row in shown] == [None]


@pytest.mark.parametrize("stop", ["length", "cancelled", "refusal", "error", "cut"])
@pytest.mark.parametrize("text", ["So", ""])
def test_the_last_row_of_an_unfinished_message_says_why(stop: StopReason, text: str) -> None:
    """S27, L39: also if nothing was said before."""
    shown = rows(log(Message("a", "assistant", (Thinking("hm"), Text(text)), stop=stop, stop_detail="word")))

    assert [row.stop for row in shown][-1] == stop
    assert shown[-1].stop_detail == "word"
    assert all(row.stop is None for row in shown[:-1])
    [alone] = rows(log(Message("a", "assistant", (), stop=stop)))
    assert alone.stop == stop


def test_a_stream_that_died_without_a_word_is_cut() -> None:
    [row] = rows(log(says("So", partial=True)))

    assert row.stop == "cut"


def test_what_a_message_delivers_is_shown_once() -> None:
    delivered = Message("u", "user", (Text("hi"),), inputs=(1,))

    assert [row.id for row in rows(log(Input((Text("hi"),), actor="ada"), delivered))] == ["1.0"]


def test_synthetic_rows_come_from_notices() -> None:
    """S24"""
    [known, other, failed, todos] = rows(
        log(
            NoticeRow("n1", "text", value={"text": "Window seat."}),
            NoticeRow("n2", "cancellation", "You stopped it.", "warning"),
            NoticeRow("n3", "error", "No seats."),
            NoticeRow("n4", "todo_snapshot", value={"todos": [{"id": "1", "content": "pack"}]}),
        )
    )

    assert known.content == TextContent("Window seat.")
    assert other.content == NotificationContent("You stopped it.", "warning", "cancellation")
    assert failed.content == ErrorContent("No seats.")
    assert todos.kind == "todo_snapshot"


def test_a_run_that_failed_a_todo_list_and_a_redaction_are_rows() -> None:
    shown = rows(
        log(
            RunEnded(1, "failed", failure=Failure("overloaded", "Try again."), retryable=True),
            StatePatch(todos=(Todo("1", "pack"),)),
            Redacted("message", "00", "00"),
        )
    )

    assert shown[0].content == ErrorContent("Try again.", "overloaded", True)
    assert [row.kind for row in shown[1:]] == ["todo_snapshot", "notification"]


def test_what_can_not_be_read_is_an_error_row_and_not_a_crash() -> None:
    [row] = rows([Event(1, "message", b"nonsense", 0)])

    assert row.kind == "error"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", {}),
        ("text", {"text": 5}),
        ("poem", {"text": "x"}),
        ("tool_call", {"call_id": "c", "status": "x"}),
    ],
)
def test_a_row_of_another_shape_is_refused(kind: str, value: dict[str, Any]) -> None:
    """S21"""
    with pytest.raises(InvalidPayload):
        row_content(kind, value)


@given(logs())
def test_every_row_of_any_log_has_the_shape_of_its_kind(log: list[Event]) -> None:
    """S21"""
    for row in rows(log):
        content = msgspec.to_builtins(row.content)
        assert row.kind in ROW_KINDS
        if b"hologram" not in log[row.seq - 1].data:
            assert row_content(row.kind, content) == msgspec.convert(content, type(row.content))


@given(logs())
def test_folding_live_and_folding_the_log_give_the_same(log: list[Event]) -> None:
    """L41, S23: a subscriber that keeps each row it was sent has what a reload shows."""
    live = Rows()
    kept: dict[str, Row] = {}
    for event in log:
        kept |= {row.id: row for row in live.apply(event)}
        assert live.apply(event) == ()

    assert tuple(kept.values()) == live.rows == rows(log)
    assert [row.seq for row in live.rows] == sorted(row.seq for row in live.rows)


@given(logs(), st.integers(1, 5), st.integers(1, 6))
def test_pages_from_the_newest_to_the_oldest_are_all_rows(log: list[Event], limit: int, read: int) -> None:
    """S26: with the calls and the marks, a page needs nothing of the log after it."""
    fold = Rows()
    for event in log:
        fold.apply(event)
    calls = [
        call(row.content.call_id, row.content.status)
        for row in fold.rows
        if isinstance(row.content, CallContent)
    ]

    found: list[Row] = []
    before: str | None = None
    for _ in range(200):
        last = (bound(before) or len(log) + 1) - 1
        part = page(log[max(0, last - read) : last], calls, fold.marks, before=before, limit=limit)
        assert len(part.rows) <= limit
        found[:0] = part.rows
        before = part.older
        if before is None:
            break

    assert [(row.id, row.mark) for row in found] == [(row.id, row.mark) for row in fold.rows]


def test_a_cursor_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no cursor"):
        page(log(user("1")), before="yesterday")
    with pytest.raises(InvalidInput, match="at least one"):
        page([], limit=0)


def test_marks_are_kept_for_older_pages() -> None:
    shown = rows(log(user("1"), user("2")), marks=Marks(((1, 1),), 9))

    assert [row.mark for row in shown] == ["retracted", "reset"]
