"""A conversation for a loop of one's own: restored, appended to, summarised."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletion
from tests.conversations.taps import committed_bytes, tapped, turns

import holdfast
from holdfast.errors import Busy, InvalidInput, MessageTooLarge, StaleCall, StaleRecord, TokenConflict
from holdfast.hub import Hub
from holdfast.model import (
    Compaction,
    Image,
    Inline,
    Input,
    Message,
    NoticeRow,
    StatePatch,
    Stored,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.store import SetHeader
from holdfast.testing import FakeClock, StoreKit
from holdfast.views.display import TextContent

pytestmark = pytest.mark.anyio

ASKS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"n":1}'}}
    ],
}


async def test_one_that_is_not_there_is_fresh_and_made_by_its_first_append(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    assert (conversation.info, conversation.seq, conversation.transcript("openai")) == (None, 0, [])
    assert await hub.conversations.get_or_none("ada", "c-1") is None

    await conversation.append({"role": "user", "content": "Hi"})

    assert conversation.info == await hub.conversations.get("ada", "c-1")
    assert (conversation.id, conversation.seq) == ("c-1", 1)


async def test_what_was_appended_is_there_in_another_process(hub: Hub, kit: StoreKit) -> None:
    """K1, K2: the system prompt included."""
    conversation = await hub.open("ada", "c-1")
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Flights?"},
        {k: v for k, v in ASKS.items() if v is not None},
        {"role": "tool", "tool_call_id": "call_1", "content": "HF101"},
        {"role": "assistant", "content": "HF101 flies."},
    ]
    for message in said:
        await conversation.append(message, format="openai")

    async with Hub(kit.connect()) as other:
        restored = await other.open("ada", "c-1")

    assert restored.transcript("openai") == conversation.transcript("openai") == said


async def test_a_crash_between_call_and_result_leaves_a_transcript_that_providers_take(hub: Hub) -> None:
    """L22"""
    conversation = await hub.open("ada", "c-1")
    await conversation.append("Flights?", ASKS, format="openai")

    restored = await hub.open("ada", "c-1")

    [_, asks, result] = restored.transcript("openai")
    assert result["tool_call_id"] == asks["tool_calls"][0]["id"] == "call_1"
    assert "outcome of this call is unknown" in result["content"]


async def test_a_result_that_comes_in_another_process_finds_its_call(hub: Hub) -> None:
    """L15: by the provider's id, also when it repeats."""
    first = await hub.open("ada", "c-1")
    for _ in range(2):
        await first.append(
            ASKS, {"role": "tool", "tool_call_id": "call_1", "content": "old"}, format="openai"
        )
    await first.append(ASKS, format="openai")

    second = await hub.open("ada", "c-1")
    await second.append({"role": "tool", "tool_call_id": "call_1", "content": "new"}, format="openai")

    assert [m["content"] for m in second.transcript("openai") if m["role"] == "tool"] == ["old", "old", "new"]
    assert {call.status for call in await hub.calls.list("ada", "c-1")} == {"completed"}


async def test_a_result_under_the_id_that_was_sent_finds_its_call(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append(Message("m 1", "assistant", (ToolCall("m 1/0", "find"),)))
    [asks, _] = conversation.transcript("openai")

    sent = asks["tool_calls"][0]["id"]
    await conversation.append({"role": "tool", "tool_call_id": sent, "content": "HF101"})

    assert [m["content"] for m in conversation.transcript("openai")[1:]] == ["HF101"]
    assert [call.status for call in await hub.calls.list("ada", "c-1")] == ["completed"]


async def test_a_result_of_a_call_that_another_process_opened_closes_it(hub: Hub) -> None:
    mine, theirs = await hub.open("ada", "c-1"), await hub.open("ada", "c-1")
    await mine.append("Hi")
    await theirs.refresh()
    await theirs.append(Message("m2", "assistant", (ToolCall("m2/0", "find"),)))

    await mine.append(ToolResult("m2/0", "ok", (Text("HF101"),)))

    assert [call.status for call in await hub.calls.list("ada", "c-1")] == ["completed"]
    assert turns(mine) == turns(await hub.open("ada", "c-1"))


async def test_a_result_for_a_call_that_was_answered_meanwhile_is_stale(hub: Hub) -> None:
    """L25"""
    conversation = await hub.open("ada", "c-1")
    await conversation.append(Message("m1", "assistant", (ToolCall("m1/0", "find"),)))
    await hub.calls.cancel("ada", "c-1", "m1/0")

    with pytest.raises(StaleCall):
        await conversation.append(ToolResult("m1/0", "ok"))

    await conversation.refresh()
    assert [turn.outcome for turn in turns(conversation)[1:]] == ["cancelled"]


async def test_replies_of_the_sdks_are_taken_as_they_are(hub: Hub) -> None:
    openai = ChatCompletion.model_validate(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "From OpenAI"},
                }
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        }
    )
    anthropic = AnthropicMessage.model_validate(
        {
            "id": "y",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": "From Anthropic"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 5, "output_tokens": 2},
        }
    )
    conversation = await hub.open("ada", "c-1")

    conversation.transcript(format="openai")
    await conversation.append(openai.choices[0].message)
    await conversation.append(openai)
    conversation.transcript(format="anthropic")
    await conversation.append(anthropic)

    assert [turn.text for turn in turns(conversation)] == ["From OpenAI"] * 2 + ["From Anthropic"]
    assert (await hub.conversations.usage("ada", "c-1")).total.output_tokens == 4


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic", "langchain"])
async def test_a_transcript_comes_in_each_format_and_goes_back_in_it(hub: Hub, format: Any) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append("Hi", Message("m1", "assistant", (Text("Hello"),)))
    sent = conversation.transcript(format)

    other = await hub.open("ada", "c-2")
    await other.append(sent[1] if format == "anthropic" else sent, format=format)

    assert [(turn.role, turn.text) for turn in turns(other)] == [("user", "Hi"), ("assistant", "Hello")]
    if format != "langchain":  # whose messages carry our ids
        assert other.transcript(format) == sent


async def test_what_others_append_is_there_after_the_next_append(hub: Hub) -> None:
    """L3: two writers, nothing lost."""
    mine, theirs = await hub.open("ada", "c-1"), await hub.open("ada", "c-1")
    await mine.append("one")
    await theirs.append("two")
    await mine.append("three")

    assert [turn.text for turn in turns(mine)] == ["one", "two", "three"]
    await asyncio.gather(*(c.append(f"more {n}") for n, c in enumerate([mine, theirs])))
    await mine.refresh()
    await theirs.refresh()
    assert turns(mine) == turns(theirs)
    assert mine.seq == 5


async def test_appends_of_one_conversation_that_come_at_once_are_all_there(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")

    await asyncio.gather(*(conversation.append(f"message {number}") for number in range(8)))

    assert sorted(turn.text for turn in turns(conversation)) == [f"message {n}" for n in range(8)]
    assert turns(conversation) == turns(await hub.open("ada", "c-1"))


async def test_a_repetition_with_its_token_is_one_append(hub: Hub) -> None:
    """L4, L5"""
    conversation = await hub.open("ada", "c-1")
    for _ in range(3):
        await conversation.append("Hi", ASKS, format="openai", token="turn-1")
    other = await hub.open("ada", "c-1")
    await other.append("Hi", ASKS, format="openai", token="turn-1")

    assert conversation.seq == other.seq == 2
    with pytest.raises(TokenConflict):
        await conversation.append("Something else", token="turn-1")


async def test_the_same_message_twice_is_one_event(hub: Hub) -> None:
    """L4"""
    conversation = await hub.open("ada", "c-1")
    hi = Message("m1", "user", (Text("Hi"),))

    await conversation.append(hi)
    await conversation.append(hi, Message("m2", "user", (Text("there"),)))

    assert [turn.text for turn in turns(conversation)] == ["Hi", "there"]


async def test_a_message_is_not_put_under_the_feet_of_a_working_agent(hub: Hub, clock: FakeClock) -> None:
    await hub.conversations.create("ada", "c-1", agent="guide")
    conversation = await hub.open("ada", "c-1")
    lease = await hub.store.acquire(conversation._key, "worker", ttl=60)
    assert lease is not None

    with pytest.raises(Busy, match="is being worked on"):
        await conversation.append("Hi")
    await conversation.append(StatePatch(set={"a": 1}))
    clock.advance(seconds=60)
    await conversation.append("Hi")

    assert conversation.seq == 2


async def test_a_turn_that_is_delivered_twice_is_one_turn(hub: Hub) -> None:
    """L4: by the process that sent it, and by one that never heard that it arrived."""
    asks = Message("m1", "assistant", (Text("Hm"), ToolCall("m1/0", "find"), ToolCall("m1/1", "find")))
    turn = (asks, ToolResult("m1/0", "ok", (Text("HF101"),)))
    first, late = await hub.open("ada", "c-1"), await hub.open("ada", "c-1")

    for conversation in (first, first, late):
        await conversation.append(*turn)

    assert (first.seq, late.seq) == (2, 2)
    assert [call.status for call in await hub.calls.list("ada", "c-1")] == ["completed", "pending"]
    await late.append(*turn, ToolResult("m1/1", "ok"))
    assert late.seq == 3


async def test_a_result_is_repeated_with_its_token_from_anywhere(hub: Hub) -> None:
    """L5: also by a process that sees the call as answered, because it was."""
    await (await hub.open("ada", "c-1")).append(ASKS, format="openai")
    result = {"role": "tool", "tool_call_id": "call_1", "content": "HF101"}

    for _ in range(2):
        await (await hub.open("ada", "c-1")).append(result, format="openai", token="result-1")

    assert (await hub.open("ada", "c-1")).seq == 2
    with pytest.raises(StaleCall):
        await (await hub.open("ada", "c-1")).append(result, format="openai")


async def test_an_append_that_failed_leaves_nothing_behind(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append(Message("m1", "assistant", (ToolCall("m1/0", "find"),)))
    await hub.calls.cancel("ada", "c-1", "m1/0")
    asks = Message("m2", "assistant", (ToolCall("m2/0", "find"),))

    with pytest.raises(StaleCall):
        await conversation.append(asks, ToolResult("m1/0", "ok"))
    await conversation.append(ToolResult("m2/0", "ok"))

    assert [call.call_id for call in await hub.calls.list("ada", "c-1")] == ["m1/0"]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ((), "nothing to append"),
        (({"role": "user", "content": "Hi"},), "say whose with append"),
        ((Compaction(0, 1, 1, "x"),), "use summarise, rewrite or rewind"),
        ((5,), "can be of any provider"),
    ],
)
async def test_what_cannot_be_appended_is_refused(hub: Hub, items: Any, why: str) -> None:
    conversation = await hub.open("ada", "c-1")

    with pytest.raises(InvalidInput, match=why):
        await conversation.append(*items)
    with pytest.raises(InvalidInput, match="no format 'morse'"):
        conversation.transcript("morse")  # type: ignore[call-overload]

    assert await hub.conversations.get_or_none("ada", "c-1") is None


async def test_large_media_is_stored_once_and_sent_again(hub: Hub) -> None:
    """L21"""
    conversation = await hub.open("ada", "c-1")
    picture = Image(Inline.of(os.urandom(100_000)), "image/png")
    for number in range(3):
        await conversation.append(Message(f"m{number}", "user", (Text("Look"), picture)))

    restored = await hub.open("ada", "c-1")

    assert isinstance(turns(restored)[0].parts[1].source, Stored)
    assert restored.transcript("openai") == conversation.transcript("openai")
    assert picture.source.data in str(restored.transcript("openai"))  # type: ignore[union-attr]
    records = await hub.store.records(restored._key, "media")
    assert [len(record.data) for record in records] == [100_000]
    assert all(len(event.data) < 1_000 for event in await hub.store.events(restored._key))


async def test_an_append_costs_the_same_however_long_the_conversation_is(hub: Hub) -> None:
    """L9, promise 9"""
    conversation = await hub.open("ada", "c-1")
    costs = []
    for _ in range(3):
        for _ in range(50):
            await conversation.append("x" * 100)
        asked = tapped(hub.store)
        with committed_bytes(hub.store) as sizes:
            await conversation.append("x" * 100)
        costs.append((sum(sizes), [name for name, *_ in asked]))

    assert costs[0][0] == costs[-1][0]
    assert costs[-1][1] == ["commit"]


async def test_after_a_summary_only_the_rest_is_read(hub: Hub) -> None:
    """A6"""
    conversation = await hub.open("ada", "c-1")
    for number in range(100):
        await conversation.append(f"message {number}", StatePatch(set={"n": number}))
    await conversation.summarise("a hundred", to_seq=198)

    asked = tapped(hub.store)
    restored = await hub.open("ada", "c-1")

    assert [turn.text.split("\n")[-1] for turn in turns(restored)] == ["a hundred", "message 99"]
    assert restored.state.metadata == {"n": 99}
    assert [name for name, *_ in asked] == ["load"]
    assert (await hub.store.header(restored._key)).tail == 199


async def test_a_tail_that_somebody_else_moved_without_keeping_the_state_loses_none(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append(StatePatch(set={"seat": "12A"}), "one", "two")
    await hub.store.commit(conversation._key, [SetHeader(tail=3)])

    restored = await hub.open("ada", "c-1")

    assert restored.state.metadata == {"seat": "12A"}
    assert [turn.text for turn in turns(restored)] == ["two"]


async def test_a_rewrite_is_what_models_read_and_the_log_keeps_the_rest(hub: Hub) -> None:
    """K3"""
    conversation = await hub.open("ada", "c-1")
    await conversation.append("one", "two", "three")
    await conversation.rewrite({"role": "user", "content": "one and two"}, to_seq=2, format="openai")
    await conversation.append("four")

    restored = await hub.open("ada", "c-1")

    for known in (conversation, restored):
        assert [turn.text for turn in turns(known)] == ["one and two", "three", "four"]
    page = await hub.conversations.rows("ada", "c-1")
    assert [row.content.text for row in page.rows if isinstance(row.content, TextContent)] == [
        *("one", "two", "three", "four"),
    ]
    await conversation.rewrite("anew")
    await conversation.append("five")
    assert [turn.text for turn in turns(await hub.open("ada", "c-1"))] == ["anew", "five"]
    await hub.conversations.rewind("ada", "c-1", 3)
    assert [turn.text for turn in turns(await hub.open("ada", "c-1"))] == ["one", "two", "three"]


async def test_of_rewrites_and_summaries_that_race_one_wins(hub: Hub) -> None:
    """L45"""
    mine, theirs = await hub.open("ada", "c-1"), await hub.open("ada", "c-1")
    await mine.append("one", "two")
    await theirs.refresh()
    await mine.append("three")

    await theirs.rewrite("both", to_seq=2)
    with pytest.raises(StaleRecord):
        await mine.rewrite("mine")

    assert [turn.text for turn in turns(mine)] == [turn.text for turn in turns(theirs)] == ["both", "three"]
    for wrong in ((0, 1), (2, 1), (1, 99)):
        with pytest.raises(InvalidInput, match="there are no events"):
            await mine.rewrite("x", from_seq=wrong[0], to_seq=wrong[1])


async def test_a_snapshot_has_the_transcript_and_input_that_waits(hub: Hub) -> None:
    """K1"""
    conversation = await hub.open("ada", "c-1")
    waits = Input((Text("later"),))
    await conversation.append("now", waits)

    for known in (conversation, await hub.open("ada", "c-1")):
        snapshot = known.snapshot()
        assert (snapshot.seq, snapshot.waiting) == (2, (waits,))
        assert snapshot.turns == known.transcript()


async def test_of_two_summaries_that_race_one_wins(hub: Hub) -> None:
    """L45"""
    mine, theirs = await hub.open("ada", "c-1"), await hub.open("ada", "c-1")
    await mine.append("one", "two", "three")
    await theirs.refresh()

    before = mine.view
    await mine.append(StatePatch(set={"a": 1}))
    assert mine.view == before == 0
    await mine.summarise("mine", to_seq=2)
    assert mine.view > before
    with pytest.raises(StaleRecord):
        await theirs.summarise("theirs", to_seq=3)

    assert theirs.summary == mine.summary
    for wrong in (0, 99, -1):
        with pytest.raises(InvalidInput, match="to summarise up to"):
            await mine.summarise("x", to_seq=wrong)
    with pytest.raises(InvalidInput, match="nothing to summarise from 3 up to 2"):
        await mine.summarise("x", to_seq=2, from_seq=3)


async def test_a_summary_leaves_the_system_message_and_open_calls_alone(hub: Hub) -> None:
    """L45: never cut between a call and its result."""
    conversation = await hub.open("ada", "c-1")
    await conversation.append({"role": "system", "content": "Be kind."}, "go", ASKS, format="openai")

    await conversation.summarise("it asked", to_seq=3)
    await conversation.append({"role": "tool", "tool_call_id": "call_1", "content": "HF101"}, format="openai")

    roles = [message["role"] for message in conversation.transcript("openai")]
    assert roles == ["system", "user", "assistant", "tool"]


async def test_rows_and_search_know_what_was_appended(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append("A flight to Lisbon", NoticeRow("n1", "notification", "Queued."))
    await hub.store.settle()

    page = await hub.conversations.rows("ada", "c-1")

    assert [row.kind for row in page.rows] == ["text", "notification"]
    assert [hit.seq for hit in await hub.conversations.search("ada", "lisbon")] == [1]


async def test_a_message_over_the_limit_is_refused_before_anything_is_written(
    kit: StoreKit, clock: FakeClock
) -> None:
    async with Hub(kit.connect(clock=clock), clock=clock, max_message=10_000) as hub:
        conversation = await hub.open("ada", "c-1")
        with pytest.raises(MessageTooLarge, match=r"has 10,\d\d\d bytes and at most 10,000 are allowed"):
            await conversation.append("fine", "x" * 10_000)
        with pytest.raises(MessageTooLarge):
            await conversation.append(Message("m", "user", (Image(Inline.of(bytes(50_000))),)))
        assert await hub.conversations.get_or_none("ada", "c-1") is None

        await conversation.append("x" * 9_000)

        assert conversation.seq == 1
    with pytest.raises(InvalidInput, match="max_message"):
        holdfast.connect("memory://", max_message=0)


async def test_what_was_appended_survives_a_kill(tmp_path: Path) -> None:
    """Promise 1, K5: the second run continues mid-conversation."""
    url = f"sqlite:///{tmp_path}/a.db"
    code = (
        "import asyncio, holdfast, os\n"
        "async def main():\n"
        f"    async with holdfast.connect({url!r}) as hub:\n"
        "        conversation = await hub.open('ada', 'c-1')\n"
        "        await conversation.append(f'message {conversation.seq + 1}')\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        assert await process.wait() == -signal.SIGKILL

    async with holdfast.connect(url) as hub:
        found = turns(await hub.open("ada", "c-1"))

    assert [turn.text for turn in found] == ["message 1", "message 2"]
