"""A host's own storage, as two functions, under the same primitives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.conversations.functions import HostConversation, Item, open_host
from holdfast.errors import InvalidInput
from holdfast.model import Input, Message, Text

pytestmark = pytest.mark.anyio

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}}],
}


class Host:
    """Keeps items as lines of JSON."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def load(self) -> list[Item]:
        return [json.loads(line) for line in self.lines]

    def append(self, items: Any) -> None:
        self.lines += [json.dumps(item) for item in items]

    async def load_later(self) -> list[Item]:
        return self.load()

    async def append_later(self, items: Any) -> None:
        self.append(items)


@pytest.mark.parametrize("plain", [True, False])
async def test_a_conversation_is_restored_from_what_the_host_kept(plain: bool) -> None:
    """K7"""
    host = Host()
    functions = (host.load, host.append) if plain else (host.load_later, host.append_later)
    conversation = await open_host(*functions)
    await conversation.append("Flights?")
    await conversation.append(CALL, format="openai")

    restored = await open_host(*functions)

    assert isinstance(restored, HostConversation)
    assert restored.seq == 2
    sent = restored.transcript(format="openai")
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert "unknown" in sent[-1]["content"]
    await restored.append({"role": "tool", "tool_call_id": "call_1", "content": "HF101"})
    assert restored.transcript(format="openai")[-1]["content"] == "HF101"
    assert (await open_host(*functions)).snapshot() == restored.snapshot()


async def test_a_snapshot_has_input_that_waits() -> None:
    """K1"""
    host = Host()
    conversation = await open_host(host.load, host.append)
    waits = Input((Text("later"),))
    await conversation.append("now", waits)

    snapshot = conversation.snapshot()

    assert snapshot.waiting == (waits,)
    assert [turn.text for turn in snapshot.turns if isinstance(turn, Message)] == ["now"]
    await conversation.append(Message("m2", "user", (Text("later"),), inputs=(2,)))
    assert conversation.snapshot().waiting == ()


async def test_what_the_host_does_not_take_is_not_there() -> None:
    def append(items: Any) -> None:
        raise OSError("full")

    conversation = await open_host(list, append)
    with pytest.raises(OSError, match="full"):
        await conversation.append("lost")

    assert conversation.seq == 0
    assert conversation.transcript() == ()


@pytest.mark.parametrize("item", [{}, {"type": "message"}, 17, None, {"data": {}}])
async def test_what_is_no_item_is_refused(item: Any) -> None:
    with pytest.raises(InvalidInput):
        await open_host(lambda: [item], Host().append)
