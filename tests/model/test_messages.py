"""What the parts, messages and events of a conversation can say."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Any, get_args

import pytest

import holdfast.model
from holdfast.errors import InvalidPayload
from holdfast.model import (
    Data,
    File,
    Image,
    Inline,
    Message,
    Outcome,
    Resolution,
    RunEnded,
    RunOutcome,
    StopReason,
    Stored,
    Suspension,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    Url,
    Usage,
    args_hash,
    decode,
    encode,
    set_aside,
    type_of,
)

PHOTO = bytes(range(256)) * 8


def test_a_message_says_its_text_and_its_calls_in_order() -> None:
    first, second = ToolCall("m/1", "find"), ToolCall("m/3", "book")
    message = Message("m", "assistant", (Text("One. "), first, Text("Two."), second, Thinking("hm")))

    assert message.text == "One. Two."
    assert message.calls == (first, second)


def test_calls_of_the_same_provider_id_stay_two_calls() -> None:
    """L15: the provider's id is data; the key of the row is ours."""
    calls = (
        ToolCall("m/0", "book", {"seat": 1}, provider_id="call_0"),
        ToolCall("m/1", "book", {"seat": 2}, provider_id="call_0"),
    )

    read = decode("message", encode(Message("m", "assistant", calls)))

    assert isinstance(read, Message)
    assert read.calls == calls
    assert len({call.call_id for call in read.calls}) == 2


def test_arguments_that_did_not_parse_are_kept_as_their_text() -> None:
    call = ToolCall("m/0", "book", None, raw_args='{"flight": "HF1', unfinished=True)

    read = decode("message", encode(Message("m", "assistant", (call,), partial=True)))

    assert isinstance(read, Message)
    assert read.calls == (call,)


@pytest.mark.parametrize("stop", get_args(StopReason))
def test_every_ending_of_a_message_survives_a_round_trip(stop: Any) -> None:
    """L39"""
    message = Message("m", "assistant", (Text("So I"),), stop=stop, stop_detail="max_tokens", partial=True)

    assert decode("message", encode(message)) == message


def test_a_dead_stream_a_cancel_an_error_a_length_stop_and_a_refusal_are_five_endings() -> None:
    """L39: beside the two that were hoped for."""
    endings = {encode(Message("m", "assistant", stop=stop)) for stop in get_args(StopReason)}

    assert set(get_args(StopReason)) == {
        "end",
        "tool_calls",
        "length",
        "refusal",
        "cancelled",
        "error",
        "cut",
    }
    assert len(endings) == 7


@pytest.mark.parametrize("outcome", get_args(RunOutcome))
@pytest.mark.parametrize("retryable", [True, False])
def test_every_ending_of_a_run_survives_a_round_trip(outcome: Any, retryable: bool) -> None:
    """L39"""
    ended = RunEnded(3, outcome, retryable=retryable)

    assert decode("run", encode(ended)) == ended


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_every_outcome_of_a_call_survives_a_round_trip(outcome: Any) -> None:
    result = ToolResult("m/0", outcome)

    assert decode("tool_result", encode(result)) == result


@pytest.mark.parametrize(
    "thinking",
    [
        Thinking("Lisbon, then", "sig=="),
        Thinking(encrypted="gAAAA", provider_id="rs_1"),
        Thinking(signature="s"),
    ],
)
def test_thinking_goes_back_to_its_provider_as_it_came(thinking: Thinking) -> None:
    read = decode("message", encode(Message("m", "assistant", (thinking,))))

    assert isinstance(read, Message)
    assert read.parts == (thinking,)


class TestMedia:
    def test_large_media_is_set_aside_once_by_its_hash(self) -> None:
        """L21"""
        parts = (
            Text("two views of"),
            Image(Inline.of(PHOTO), "image/png"),
            File(Inline.of(PHOTO), "again.png", "image/png"),
        )

        kept, media = set_aside(parts, above=1_000)

        stored = Stored(sha256(PHOTO).hexdigest(), len(PHOTO))
        assert kept == (parts[0], Image(stored, "image/png"), File(stored, "again.png", "image/png"))
        assert media == {stored.hash: PHOTO}
        assert len(encode(Message("m", "user", kept))) < 500

    def test_what_it_points_to_gives_the_part_back(self) -> None:
        """L21"""
        part = Image(Inline.of(PHOTO))

        [kept], media = set_aside([part], above=1_000)

        assert isinstance(kept, Image)
        assert isinstance(kept.source, Stored)
        assert Image(Inline.of(media[kept.source.hash])) == part

    @pytest.mark.parametrize(
        "part",
        [
            Image(Inline.of(b"x" * 1_000)),
            Image(Url("https://example.org/a.png")),
            Image(Stored("00", 5_000)),
            Data("x" * 5_000),
            UnknownPart("film", '{"type":"film"}'),
        ],
    )
    def test_small_or_distant_media_stays_where_it_is(self, part: Any) -> None:
        """L21"""
        assert set_aside([part], above=1_000) == ((part,), {})

    def test_inline_media_that_is_not_base64_is_an_error_with_its_path(self) -> None:
        with pytest.raises(InvalidPayload) as caught:
            set_aside([Text("a"), File(Inline("!!!!"))], above=0)

        assert caught.value.path == "$[1].source.data"

    def test_inline_media_is_plain_base64(self) -> None:
        assert Inline.of(PHOTO).data == base64.b64encode(PHOTO).decode()
        assert Inline.of(PHOTO).content() == PHOTO


class TestApproval:
    def test_the_hash_tells_the_arguments_that_were_shown_from_any_others(self) -> None:
        """L27"""
        shown = {"to": "ann", "amount": 10}
        others: list[Any] = [
            {"to": "ann", "amount": 100},
            {"to": "ann", "amount": "10"},
            {"to": "ann", "amount": 10.0},
            {"to": "ann", "amount": True},
            {"to": "ann\0", "amount": 10},
            {"to": "ann", "amount": 10, "note": None},
            None,
        ]

        hashes = {args_hash(other) for other in others}

        assert args_hash(shown) not in hashes
        assert len(hashes) == len(others)

    def test_the_hash_is_the_same_after_a_round_trip(self) -> None:
        """L27: it is computed by whoever shows the call and again by whoever checks the answer."""
        call = ToolCall("m/0", "pay", {"to": "ann \ud800", "amount": 1e16, "big": 2**80})

        read = decode("message", encode(Message("m", "assistant", (call,))))

        assert isinstance(read, Message)
        assert args_hash(read.calls[0].args) == args_hash(call.args)

    def test_edited_arguments_are_recorded_beside_the_original(self) -> None:
        """L27"""
        waits = Suspension("m/0", 1, "approval", args_hash({"amount": 10}), decisions=("approve", "edit"))
        answer = Resolution("m/0", 1, "edit", waits.args_hash, args={"amount": 5}, actor="ann")

        assert decode("suspension", encode(waits)) == waits
        assert decode("resolution", encode(answer)) == answer


def test_a_short_payload_is_short() -> None:
    message = Message("m1", "user", (Text("hi"),), usage=Usage(3))

    assert encode(message) == (
        b'{"v":2,"id":"m1","role":"user","parts":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3}}'
    )
    assert encode(RunEnded(1, "completed")) == b'{"state":"ended","run":1,"outcome":"completed"}'


def test_the_forms_of_a_run_are_events_of_one_type() -> None:
    assert {type_of(form(1, "completed")) for form in (RunEnded, holdfast.model.RunParked)} == {"run"}


def test_every_exported_name_is_there_once() -> None:
    names = holdfast.model.__all__

    assert len(set(names)) == len(names)
    assert all(hasattr(holdfast.model, name) for name in names)
