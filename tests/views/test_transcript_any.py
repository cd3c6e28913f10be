"""L22, L23: for any log, cut at any event, what a model gets is valid."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.views.logs import logs, messages, results

from holdfast.model import Event, Message, Text, Thinking, ToolCall, ToolResult
from holdfast.views import Transcript, Turn, logged, repair, transcript


def check(turns: Sequence[Turn]) -> None:
    """Each call has one result, directly after its message and in order; nothing is empty or left over."""
    at = 0
    while at < len(turns):
        message = turns[at]
        assert isinstance(message, Message), "a result without its call"
        calls = message.calls
        answers = turns[at + 1 : at + 1 + len(calls)]
        assert all(isinstance(answer, ToolResult) for answer in answers)
        assert [answer.call_id for answer in answers if isinstance(answer, ToolResult)] == [
            call.call_id for call in calls
        ]
        assert message.role == "assistant" or not calls
        assert not any(call.unfinished for call in calls)
        for turn in (message, *answers):
            assert turn.parts
            assert all(part.text.strip() for part in turn.parts if isinstance(part, Text))
        assert not isinstance(message.parts[-1], Thinking)
        assert message.role == "assistant" or not any(isinstance(part, Thinking) for part in message.parts)
        at += 1 + len(calls)


@given(logs())
def test_any_log_gives_a_valid_transcript(log: list[Event]) -> None:
    """L22: a provider would answer 400 for ever otherwise."""
    check(transcript(log))


@given(logs(), st.data())
def test_a_log_cut_at_any_event_gives_a_valid_transcript(log: list[Event], data: st.DataObject) -> None:
    """L23"""
    first = data.draw(st.integers(0, len(log)))
    last = data.draw(st.integers(first, len(log)))

    check(transcript(log[first:last]))


@given(st.lists(st.one_of(messages, results), max_size=12))
def test_repair_is_deterministic_and_changes_nothing_the_second_time(turns: list[Turn]) -> None:
    """L23"""
    once = repair(turns)

    check(once)
    assert repair(once) == once
    assert repair(turns) == once


@given(logs())
def test_a_transcript_needs_no_repair(log: list[Event]) -> None:
    """L23"""
    turns = transcript(log)

    assert repair(turns) == turns


@given(logs(), st.data())
def test_folding_live_and_folding_the_log_give_the_same(log: list[Event], data: st.DataObject) -> None:
    """L41: whenever it was looked at between, and whether an event came twice."""
    live = Transcript()
    for event in log:
        live.apply(event)
        if data.draw(st.booleans()):
            assert live.turns == transcript(log[: event.seq])
            live.apply(event)

    assert live.turns == transcript(log)
    assert live.turns == transcript(map(logged, log))


@given(logs())
def test_reading_from_the_tail_on_gives_the_same(log: list[Event]) -> None:
    """A6: the next turn reads the summary and what follows it, not the whole log."""
    calls = [call for event in log for call in _calls(event)]
    assume(len(set(calls)) == len(calls))
    whole = Transcript()
    for event in log:
        whole.apply(event)

    assert transcript(event for event in log if event.seq >= whole.tail) == whole.turns


def _calls(event: Event) -> list[str]:
    return [
        part.call_id for part in getattr(logged(event).payload, "parts", ()) if isinstance(part, ToolCall)
    ]
