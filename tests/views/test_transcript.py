"""What a model gets of a log, by example."""

from __future__ import annotations

from tests.views.logs import answers, asks, log, says, user

from holdfast.model import (
    Compaction,
    Failure,
    Message,
    Replacement,
    Reset,
    Resolution,
    Retract,
    Rewrite,
    Suspension,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    entry,
)
from holdfast.views import Transcript, Turn, transcript


def texts(turns: tuple[Turn, ...]) -> list[str]:
    return ["".join(part.text for part in turn.parts if isinstance(part, Text)) for turn in turns]


def test_results_stand_in_call_order_directly_after_their_message() -> None:
    """L23: they came out of order, and a person wrote between them."""
    turns = transcript(
        log(user("go"), asks("c1", "c2"), answers("c2", "two"), user("hm"), answers("c1", "one"))
    )

    assert texts(turns) == ["go", "", "one", "two", "hm"]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    """L22, L24: the outcome is unknown, and the model is told."""
    [_, _, result] = transcript(log(user("go"), asks("c1")))

    assert isinstance(result, ToolResult)
    assert (result.call_id, result.outcome) == ("c1", "unknown")
    assert "unknown" in texts((result,))[0]


def test_a_call_that_waits_says_what_for() -> None:
    turns = transcript(log(asks("c1"), Suspension("c1", 1, "approval")))

    assert "approval" in texts(turns)[-1]


def test_the_result_of_a_call_id_that_repeats_belongs_to_the_latest_call() -> None:
    """L15"""
    turns = transcript(log(asks("c", id="a1"), answers("c", "1"), asks("c", id="a2"), answers("c", "2")))

    assert texts(turns) == ["", "1", "", "2"]


def test_unfinished_calls_and_unsigned_partial_thinking_are_not_sent() -> None:
    parts = (Thinking("hm"), Text("I will"), ToolCall("c1", "book", unfinished=True))

    [turn] = transcript(log(Message("a", "assistant", parts, partial=True, stop="cut")))

    assert turn.parts == (Text("I will"),)


def test_thinking_that_nothing_follows_is_not_sent() -> None:
    assert transcript(log(Message("a", "assistant", (Thinking("hm", "signed"),)))) == ()


def test_an_edit_is_stated_in_the_result_and_the_call_stays_as_it_was_made() -> None:
    """L27"""
    edit = Resolution("c1", 1, "edit", args={"n": 2})

    [call, result] = transcript(log(asks("c1"), Suspension("c1", 1, "approval"), edit, answers("c1")))

    assert isinstance(call, Message)
    assert call.calls[0].args == {"n": 1}
    assert '{"n":2}' in texts((result,))[0]


def test_a_failure_is_told_if_the_tool_said_nothing_else() -> None:
    [_, result] = transcript(log(asks("c1"), ToolResult("c1", "error", (), Failure("boom", "No seats."))))

    assert texts((result,)) == ["No seats."]


def test_a_result_is_never_blank() -> None:
    """L22: some providers refuse it."""
    [_, result] = transcript(log(asks("c1"), answers("c1", " ")))

    assert texts((result,)) == ["Done, without any output."]


def test_a_summary_stands_for_what_it_covers() -> None:
    """A6: summary and tail."""
    turns = transcript(log(user("old"), says("older"), Compaction(0, 1, 2, "They greeted."), user("new")))

    assert [turn.role for turn in turns if isinstance(turn, Message)] == ["user", "user"]
    assert "They greeted." in texts(turns)[0]
    assert texts(turns)[1] == "new"


def test_of_two_summaries_the_one_that_reaches_further_stands() -> None:
    """A6, L45: the slower of two that raced comes later and knows less."""
    events = [user("1"), user("2"), user("3"), Compaction(0, 1, 3, "all"), Compaction(0, 1, 2, "some")]

    [turn] = transcript(log(*events))

    assert "all" in texts((turn,))[0]


def test_a_summary_never_cuts_between_a_call_and_its_result() -> None:
    """L12, L45: the result came after what the summary was computed from."""
    turns = transcript(log(user("go"), asks("c1"), Compaction(0, 1, 2, "Asked."), answers("c1")))

    assert [type(turn) for turn in turns] == [Message, Message, ToolResult]
    assert texts(turns)[-1] == "booked"


def test_one_result_can_be_rewritten() -> None:
    """K3"""
    stub = Rewrite(0, (Replacement(3, 3, (entry(answers("c1", "[cut]")),)),))

    assert texts(transcript(log(user("go"), asks("c1"), answers("c1", "x" * 999), stub))) == [
        "go",
        "",
        "[cut]",
    ]


def test_the_whole_transcript_can_be_replaced_and_goes_on_from_there() -> None:
    """K3"""
    anew = Rewrite(0, (Replacement(1, 2, (entry(user("short")), entry(says("ok")))),))

    assert texts(transcript(log(user("long"), says("longer"), anew, user("next")))) == ["short", "ok", "next"]


def test_what_was_retracted_is_gone_and_comes_back_when_that_is_retracted() -> None:
    """X2: undo, and redo."""
    undo = [user("1"), says("2"), Retract(0, 2, 2)]

    assert texts(transcript(log(*undo))) == ["1"]
    assert texts(transcript(log(*undo, Retract(0, 3, 3)))) == ["1", "2"]


def test_a_rewind_into_a_summary_brings_back_what_it_covered() -> None:
    """X2: a summary of what was undone must not be read."""
    events = [user("1"), says("2"), user("3"), Compaction(0, 1, 3, "123"), Retract(0, 3, 4)]

    assert texts(transcript(log(*events))) == ["1", "2"]


def test_after_a_reset_the_view_starts_anew() -> None:
    assert texts(transcript(log(user("1"), Reset(0), user("2")))) == ["2"]


def test_the_tail_is_where_the_summary_ends() -> None:
    fold = Transcript()
    for event in log(user("1"), says("2"), user("3"), Compaction(0, 1, 2, "12")):
        fold.apply(event)

    assert fold.tail == 3


def test_a_system_message_is_a_part_of_the_transcript() -> None:
    """K2"""
    prompt = Message("s", "system", (Text("Be kind."),))

    assert transcript(log(prompt, user("hi"))) == (prompt, user("hi"))
