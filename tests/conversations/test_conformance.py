"""The typed helpers and the default behaviours pass the suites that are shipped to users."""

from __future__ import annotations

import pytest
from tests.conversations.taps import committed_bytes

from holdfast.hub import Hub
from holdfast.model import Message, Text
from holdfast.persistence import AgentStates, DisplayMessages, HookContext, PersistContext, quietly
from holdfast.testing import ConversationConformance, PersistenceConformance
from holdfast.views import AgentState


class TestConversations(ConversationConformance):
    pass


class TestPersistence(PersistenceConformance):
    @pytest.fixture
    def agent_persistence(self, hub: Hub) -> AgentStates:
        return hub.agent_states

    @pytest.fixture
    def display_persistence(self, hub: Hub) -> DisplayMessages:
        return hub.display_messages

    @pytest.fixture
    async def conversation_id(self, hub: Hub, scope: str) -> str:
        return (await hub.conversations.create(scope, "c-1")).id


@pytest.mark.anyio
async def test_saving_a_state_costs_the_same_however_long_the_conversation_is(hub: Hub) -> None:
    """L9"""
    await hub.conversations.create("ada", "c-1")
    costs = []
    for length in (64, 640):
        turns = tuple(Message(f"m{n:03}", "user", (Text("x" * 1_000),)) for n in range(length))
        for more in range(2):
            state = AgentState("a", (*turns, *turns[:more])).to_serialized()
            with committed_bytes(hub.store) as sizes:
                await hub.agent_states.persist_state("ada", state, PersistContext("a", "c-1"))
        costs.append(sum(sizes))

    assert costs[1] < 2 * costs[0]


@pytest.mark.anyio
async def test_a_late_state_does_not_bring_a_conversation_back(hub: Hub) -> None:
    """L16"""
    await hub.conversations.create("ada", "c-1")
    await hub.conversations.delete("ada", "c-1")

    failed: list[Exception] = []
    saving = hub.agent_states.persist_state(
        "ada", AgentState("a").to_serialized(), PersistContext("a", "c-1")
    )
    await quietly(saving, report=failed.append)

    assert len(failed) == 1
    assert await hub.conversations.get_or_none("ada", "c-1") is None


@pytest.mark.anyio
async def test_a_failing_behaviour_is_logged_and_reported_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """L43, S3"""

    async def fails() -> str:
        raise RuntimeError("disk full")

    reported: list[Exception] = []
    assert await quietly(fails(), report=reported.append) is None

    assert "disk full" in caplog.text
    assert [str(error) for error in reported] == ["disk full"]


@pytest.mark.anyio
async def test_rows_of_the_default_behaviour_are_those_that_the_door_shows(hub: Hub) -> None:
    await hub.conversations.create("ada", "c-1")
    saved = await hub.display_messages.save_message(
        "ada", Message("m1", "user", (Text("Hi"),)), HookContext("a", "c-1")
    )

    page = await hub.conversations.rows("ada", "c-1")

    assert page.rows == tuple(saved)
