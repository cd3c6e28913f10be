"""Transcripts in the formats of providers and back, checked with the SDKs' own types."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from anthropic.types import Message as AnthropicReply
from anthropic.types import MessageParam
from hypothesis import given, settings
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, messages_from_dict, messages_to_dict
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from openai.types.responses import Response, ResponseInputItemParam
from pydantic import TypeAdapter
from tests.views.logs import asks, logs, says, user

from holdfast.errors import InvalidInput
from holdfast.model import (
    Custom,
    Data,
    Event,
    File,
    Image,
    Inline,
    Message,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from holdfast.views import Turn, repair, transcript
from holdfast.views.formats import (
    from_anthropic,
    from_langchain,
    from_openai,
    from_responses,
    stored,
    to_anthropic,
    to_langchain,
    to_openai,
    to_responses,
)

PDF = Inline.of(b"%PDF-1.7")
PNG = Inline.of(b"\x89PNG")


def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"m{next(numbers)}"


def call(id: str, name: str = "find", args: Any = None) -> ToolCall:
    return ToolCall(
        id, name, {"city": "Lisbon"} if args is None else args, provider_id=f"p_{id.replace('/', '_')}"
    )


PARALLEL: tuple[Turn, ...] = (
    Message("m1", "system", (Text("Be kind."),)),
    Message("m2", "user", (Text("Flights?"),)),
    Message("m3", "assistant", (Text("Looking."), call("m3/1"), call("m3/2", "weather", {}))),
    ToolResult("m3/1", "ok", (Text("HF101"),)),
    ToolResult("m3/2", "ok", (Text("sun"),)),
    Message("m4", "assistant", (Text("HF101, and sun."),)),
)
MEDIA: tuple[Turn, ...] = (
    Message("m1", "user", (Text("See:"), Image(Url("https://x.test/a.png")), Image(PNG, "image/png"))),
    Message("m2", "user", (Text("Read:"), File(PDF, "trip.pdf", "application/pdf"))),
)


def through_openai(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    wire = to_openai(turns)
    validated(ChatCompletionMessageParam, wire)
    return from_openai(wire, ids=ids())


def through_responses(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    wire = to_responses(turns)
    validated(ResponseInputItemParam, wire)
    return from_responses(wire, ids=ids())


def through_anthropic(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    system, wire = to_anthropic(turns)
    validated(MessageParam, wire)
    return from_anthropic(wire, system, ids=ids())


def through_langchain(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    messages = messages_from_dict(to_langchain(turns))
    assert all(isinstance(message, BaseMessage) for message in messages)
    assert from_langchain(messages, ids=ids()) == from_langchain(messages_to_dict(messages), ids=ids())
    return from_langchain(messages, ids=ids())


@functools.cache
def adapter(type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(list[type])


def looked_through(value: Any) -> None:
    """Pydantic checks what an SDK calls an iterable only when somebody looks at it."""
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str):
        for inner in value:
            looked_through(inner)


def validated(type: Any, wire: list[dict[str, Any]]) -> None:
    """The SDK's own types take it, and its client can send it."""
    looked_through(adapter(type).validate_python(wire))
    json.dumps(wire, ensure_ascii=False, allow_nan=False).encode()


THROUGH = [through_openai, through_responses, through_anthropic, through_langchain]
every_format = pytest.mark.parametrize("through", THROUGH, ids=lambda through: through.__name__[8:])


@every_format
def test_parallel_calls_make_the_round_trip(through: Callable[..., Any]) -> None:
    assert through(PARALLEL) == PARALLEL


@every_format
def test_images_and_files_make_the_round_trip(through: Callable[..., Any]) -> None:
    assert through(MEDIA) == MEDIA


@pytest.mark.parametrize("through", [through_responses, through_anthropic])
def test_files_by_address_make_the_round_trip(through: Callable[..., Any]) -> None:
    turns = (Message("m1", "user", (Text("Read:"), File(Url("https://x.test/a.pdf"), None))),)

    assert through(turns) == turns


@pytest.mark.parametrize("through", [through_anthropic, through_langchain])
def test_signed_and_redacted_thinking_makes_the_round_trip(through: Callable[..., Any]) -> None:
    turns = (
        Message("m1", "user", (Text("Hi"),)),
        Message(
            "m2", "assistant", (Thinking("hm", "sig"), Thinking(encrypted="xyz"), Text("Yes"), call("m2/3"))
        ),
        ToolResult("m2/3", "ok", (Text("ok"),)),
    )

    assert through(turns) == turns


def test_reasoning_makes_the_round_trip_through_responses() -> None:
    parts = (
        Thinking("one\n\ntwo", None, "enc", "rs_1"),
        call("m1/1"),
        Thinking("", None, None, "rs_2"),
        call("m1/3"),
    )
    turns = (
        Message("m1", "assistant", parts),
        ToolResult("m1/1", "ok", (Text("1"),)),
        ToolResult("m1/3", "ok", (Text("2"),)),
    )

    assert through_responses(turns) == turns


@pytest.mark.parametrize("through", [through_openai, through_responses])
def test_a_refusal_goes_back_as_one(through: Callable[..., Any]) -> None:
    """L39: a refusal is not an answer."""
    item = Custom("responses.message", {"id": "msg_1", "status": "completed"})
    parts = (item, Text("I can't.")) if through is through_responses else (Text("I can't."),)
    turns = (Message("m1", "assistant", parts, stop="refusal", stop_detail="refusal"),)

    assert through(turns) == turns


@pytest.mark.parametrize("through", [through_anthropic, through_langchain])
def test_a_failed_call_says_so(through: Callable[..., Any]) -> None:
    turns = (
        Message("m1", "user", (Text("Hi"),)),
        Message("m2", "assistant", (call("m2/0"),)),
        ToolResult("m2/0", "error", (Text("no"),)),
    )

    assert through(turns) == turns


@pytest.mark.parametrize("through", [through_openai, through_responses, through_langchain])
def test_arguments_that_do_not_parse_make_the_round_trip(through: Callable[..., Any]) -> None:
    broken = ToolCall("m1/0", "book", None, "p1", "{oops")
    turns = (Message("m1", "assistant", (broken,)), ToolResult("m1/0", "ok", (Text("no"),)))

    assert through(turns) == turns


@pytest.mark.parametrize("through", [through_responses, through_anthropic, through_langchain])
def test_a_tool_can_answer_with_a_picture(through: Callable[..., Any]) -> None:
    turns = (
        Message("m1", "user", (Text("Hi"),)),
        Message("m2", "assistant", (call("m2/0"),)),
        ToolResult("m2/0", "ok", (Text("see"), Image(PNG, "image/png"))),
    )

    assert through(turns) == turns


@settings(max_examples=60)
@given(logs())
def test_any_log_gives_messages_that_the_sdks_take(log: list[Event]) -> None:
    """L22, L6: half characters, names that a model made up and empty messages included."""
    turns = transcript(log)

    for through in THROUGH:
        again = through(turns)
        calls = [part for turn in again if isinstance(turn, Message) for part in turn.calls]
        assert len({part.provider_id for part in calls}) == len(calls)
        assert sum(isinstance(turn, ToolResult) for turn in again) == len(calls)


@settings(max_examples=60)
@given(logs())
def test_what_came_through_once_comes_through_unchanged_again(log: list[Event]) -> None:
    """Only the first way into a format can lose something."""
    for through in THROUGH:
        once = repair(through(transcript(log)))
        assert repair(through(once)) == once


def test_ids_that_a_provider_repeats_are_made_unique() -> None:
    """L15"""
    again = ToolCall("m1/0", "find", provider_id="p"), ToolCall("m1/1", "find", provider_id="p")

    [message, first, second] = to_openai([Message("m1", "assistant", again)])

    assert [call["id"] for call in message["tool_calls"]] == [first["tool_call_id"], second["tool_call_id"]]
    assert first["tool_call_id"] == "p" != second["tool_call_id"]


@pytest.mark.parametrize("to", [to_openai, to_responses, to_anthropic, to_langchain])
def test_stored_media_is_sent_if_it_is_given_and_named_if_not(to: Callable[..., Any]) -> None:
    """L21"""
    source = Stored.of(b"\x89PNG")
    turns = [Message("m1", "user", (Image(source, "image/png"),))]

    assert stored(turns) == {source.hash}
    assert PNG.data in json.dumps(to(turns, media={source.hash: b"\x89PNG"}))
    assert "<image> image/png, 4 bytes" in json.dumps(to(turns))


@pytest.mark.parametrize("to", [to_openai, to_responses, to_anthropic, to_langchain])
def test_what_a_format_can_not_carry_is_text_with_a_mark(to: Callable[..., Any]) -> None:
    """L33"""
    parts = (
        Custom("map", {"zoom": 3}),
        Data({"rows": 2}),
        File(Inline.of(b"x"), "a.bin", "application/x-thing"),
    )

    sent = json.dumps(to([Message("m1", "assistant", parts)]))

    assert "<map> " in sent
    assert "rows" in sent
    assert to is to_langchain or "<file> a.bin application/x-thing, " in sent


@pytest.mark.parametrize("to", [to_openai, to_responses, to_langchain])
def test_a_block_of_one_provider_is_not_sent_to_another(to: Callable[..., Any]) -> None:
    """L48"""
    search = Custom(
        "anthropic.block", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    )

    assert "server_tool_use" not in json.dumps(to([Message("m1", "assistant", (search, Text("Yes")))]))


@pytest.mark.parametrize("to", [to_openai, to_responses, to_anthropic, to_langchain])
def test_artifacts_and_bookkeeping_are_not_sent(to: Callable[..., Any]) -> None:
    """L48"""
    message = Message("m1", "assistant", (call("c1"),), model="secret-model", inputs=(1,))
    result = ToolResult("c1", "ok", (Text("ok"),), artifact={"secret": 1})

    assert "secret" not in json.dumps(to([message, result]))


def test_a_chat_completion_is_read_with_its_ending_and_usage() -> None:
    reply = ChatCompletion.model_validate(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt",
            "choices": [
                {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "So"}}
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
        }
    )

    [message] = from_openai([reply], ids=ids())

    assert isinstance(message, Message)
    assert (message.text, message.stop, message.partial, message.model) == ("So", "length", True, "gpt")
    assert message.usage is not None
    assert message.usage.input_tokens == 9


def test_a_reply_of_anthropic_is_read_and_its_own_blocks_go_back_verbatim() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {
            "type": "server_tool_use",
            "id": "s1",
            "name": "web_search",
            "input": {"query": "x"},
            "caller": {"type": "direct"},
        },
        {"type": "text", "text": "Found."},
    ]
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 0,
    }
    given = {"id": "x", "type": "message", "role": "assistant", "model": "claude", "content": content}
    reply = AnthropicReply.model_validate(
        {**given, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    )

    [message] = from_anthropic([reply], ids=ids())
    [_, back] = to_anthropic([message])[1]

    assert isinstance(message, Message)
    assert (message.stop, message.usage and message.usage.input_tokens) == ("end", 6)
    assert back == {"role": "assistant", "content": content}
    assert from_anthropic(to_anthropic([message])[1], ids=ids())[0].parts == message.parts


def test_a_response_is_read_and_its_items_go_back_verbatim() -> None:
    text = {"type": "output_text", "text": "Found.", "annotations": []}
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "x"},
        },
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]},
    ]
    reply = Response.model_construct(
        id="r", object="response", status="completed", model="gpt", output=output, usage=None
    )

    [message] = from_responses([reply], ids=ids())

    assert isinstance(message, Message)
    assert (message.text, message.stop, message.model) == ("Found.", "end", "gpt")
    assert to_responses([message]) == output


def test_messages_of_langchain_are_read_as_objects() -> None:
    calls = [{"name": "find", "args": {"a": 1}, "id": "p1", "type": "tool_call"}]
    ai = AIMessage(content=[{"type": "text", "text": "Hm"}], tool_calls=calls)

    [message, result] = from_langchain([ai, ToolMessage("sun", tool_call_id="p1")], ids=ids())

    assert message == Message("m1", "assistant", (Text("Hm"), ToolCall("m1/1", "find", {"a": 1}, "p1")))
    assert result == ToolResult("m1/1", "ok", (Text("sun"),))


def test_anthropic_gets_a_user_first_and_no_space_at_the_end() -> None:
    """L22: both are refused otherwise."""
    [opening, said] = to_anthropic([says("Hello ")])[1]

    assert opening["role"] == "user"
    assert said["content"] == [{"type": "text", "text": "Hello"}]


def test_a_cut_transcript_is_mended_on_the_way_out() -> None:
    """L22"""
    assert [message["role"] for message in to_openai([user("go"), asks("c1", "c2")])] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(InvalidInput, match="int is no message"):
        from_openai([5])
