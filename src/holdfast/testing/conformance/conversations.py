"""The typed helpers above a store: summaries, audit, state, calls that are answered once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.audit import AuditPolicy
from holdfast.conversations import Conversation
from holdfast.errors import NotFound, StaleCall
from holdfast.hub import Hub
from holdfast.model import Failure, Message, ModelCall, StatePatch, Text, Todo, ToolCall, Usage
from holdfast.sweeper import Sweeper
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic, race
from holdfast.testing.kit import StoreKit


class ConversationConformance(Topic):
    """
    What an application relies on, tried over a store that a ``kit`` opens::

        class TestMyStore(ConversationConformance):
            @pytest.fixture
            def kit(self, tmp_path: Path) -> StoreKit:
                return StoreKit(f"mystore://{tmp_path}/data")
    """

    @pytest.fixture
    async def hub(self, kit: StoreKit, clock: FakeClock) -> AsyncIterator[Hub]:
        async with Hub(kit.connect(clock=clock), clock=clock) as hub:
            yield hub

    @pytest.fixture
    async def other_hub(self, kit: StoreKit, clock: FakeClock, hub: Hub) -> AsyncIterator[Hub]:
        """A second one over the same data, as another process would have it."""
        async with Hub(kit.connect(clock=clock), clock=clock) as hub:
            yield hub

    # Unknown is None

    async def test_what_is_unknown_is_none(self, hub: Hub) -> None:
        await hub.conversations.create("ada", "c-1")

        assert await hub.conversations.get_or_none("ada", "no such thing") is None
        assert await hub.calls.get("ada", "c-1", "no such call") is None
        assert (await hub.open("ada", "c-1")).summary is None
        assert (await hub.open("ada", "no such thing")).info is None
        assert await hub.audit.list("ada", "c-1") == []

    # Summaries

    async def test_the_summary_that_reaches_furthest_wins_and_the_rest_follows_it(
        self, hub: Hub, other_hub: Hub
    ) -> None:
        conversation = await hub.open("ada", "c-1")
        for number in range(1, 7):
            await conversation.append(f"message {number}")

        await conversation.summarise("two", to_seq=2)
        await conversation.summarise("four", to_seq=4)
        await conversation.summarise("three", to_seq=3)
        summary, rest = await other_hub.conversations.since_summary("ada", "c-1")

        assert summary is not None
        assert (summary.text, summary.to_seq) == ("four", 4)
        assert [event.payload.text for event in rest if isinstance(event.payload, Message)] == [
            "message 5",
            "message 6",
        ]
        turns = _turns(await other_hub.open("ada", "c-1"))
        assert [turn.text.split("\n")[-1] for turn in turns] == ["four", "message 5", "message 6"]

    async def test_without_a_summary_everything_follows(self, hub: Hub) -> None:
        await (await hub.open("ada", "c-1")).append("one", "two")

        summary, rest = await hub.conversations.since_summary("ada", "c-1")

        assert (summary, [event.seq for event in rest]) == (None, [1, 2])

    async def test_a_summary_that_races_with_new_messages_loses_none(self, hub: Hub, other_hub: Hub) -> None:
        """L45"""
        mine = await hub.open("ada", "c-1")
        await mine.append("one", "two", "three")
        theirs = await other_hub.open("ada", "c-1")

        await theirs.append("four")
        await mine.summarise("so far", to_seq=2)

        assert [turn.text.split("\n")[-1] for turn in _turns(mine)] == ["so far", "three", "four"]
        page = await hub.conversations.rows("ada", "c-1")
        assert [row.seq for row in page.rows] == [1, 2, 3, 4]

    # State

    async def test_state_comes_back_without_starting_anything(self, hub: Hub, other_hub: Hub) -> None:
        conversation = await hub.open("ada", "c-1")
        todo = Todo("1", "book a flight", "in_progress")
        await conversation.append("Hi", StatePatch(todos=(todo,), set={"seat": "12A", "old": 1}))
        await conversation.append(StatePatch(unset=("old",)))
        before = await other_hub.conversations.state("ada", "c-1")

        await conversation.summarise("hi", to_seq=3)
        after = await other_hub.conversations.state("ada", "c-1")

        assert (before.todos, before.metadata) == ((todo,), {"seat": "12A"})
        assert (after.todos, after.metadata) == (before.todos, before.metadata)

    # Audit

    async def test_audit_that_is_off_stores_nothing(self, hub: Hub) -> None:
        await hub.conversations.create("ada", "c-1")
        before = await hub.store.header((await hub.store.headers("ada"))[0].key)

        assert not await hub.audit.record("ada", "c-1", ModelCall("1", "big", {"messages": []}))

        assert await hub.audit.list("ada", "c-1") == []
        assert await hub.store.header(before.key) == before

    async def test_audit_that_is_on_stores_what_was_sent(self, hub: Hub, clock: FakeClock) -> None:
        await hub.conversations.create("ada", "c-1")
        await hub.conversations.create("ada", "c-2")
        await hub.audit.enable("ada", "c-1")
        call = ModelCall(
            "1",
            "big",
            {"messages": [{"role": "user", "content": "Hi"}]},
            at=clock(),
            run=1,
            message_id="m1",
            attempt=2,
            latency=1_200_000,
            first_chunk=300_000,
            usage=Usage(10, 5, cost=7),
            stop="error",
            failure=Failure("overloaded"),
            summary=12,
            evicted=(3, 4),
        )

        assert await hub.audit.record("ada", "c-1", call)
        assert not await hub.audit.record("ada", "c-2", call)

        assert await hub.audit.list("ada", "c-1") == [call]
        await hub.audit.enable("ada", "c-1", False)
        assert not await hub.audit.record("ada", "c-1", call)

    async def test_audit_can_be_on_for_everything_and_off_for_one(
        self, kit: StoreKit, clock: FakeClock
    ) -> None:
        policy = AuditPolicy(everywhere=True)
        async with Hub(kit.connect(clock=clock), clock=clock, audit=policy) as hub:
            await hub.conversations.create("ada", "c-1")
            await hub.conversations.create("ada", "c-2")
            await hub.audit.enable("ada", "c-2", False)

            kept = [await hub.audit.record("ada", id, ModelCall("1", "big", {})) for id in ("c-1", "c-2")]

            assert kept == [True, False]
            await hub.audit.enable("ada", "c-2", None)
            assert await hub.audit.record("ada", "c-2", ModelCall("1", "big", {}))

    async def test_old_audit_is_collected_and_the_rest_stays(self, hub: Hub, clock: FakeClock) -> None:
        for id in ("c-1", "c-2"):
            await hub.conversations.create("ada", id)
            await hub.audit.enable("ada", id)
        for age in range(3):
            await hub.audit.record("ada", "c-1", ModelCall(str(age), "big", {"n": age}))
            await hub.audit.record("ada", "c-2", ModelCall(str(age), "big", {"n": age}))
            clock.advance(seconds=100)

        removed = await hub.audit.collect("ada", older_than=150)
        again = await hub.audit.collect("ada", older_than=150)

        assert (removed, again) == (4, 0)
        assert [call.id for call in await hub.audit.list("ada", "c-1")] == ["2"]

    # Calls

    async def test_of_many_who_answer_one_wins(self, hub: Hub, other_hub: Hub) -> None:
        """L25: double click, two browsers."""
        await (await hub.open("ada", "c-1")).append(_asks("m1"))
        wait = await hub.calls.interrupt("ada", "c-1", "m1/0")

        won, lost = await race(
            *(
                door.calls.record_decision("ada", "c-1", "m1/0", decision, step=wait.step)
                for door in (hub, other_hub)
                for decision in ("approve", "reject", "approve")
            ),
            loses=StaleCall,
        )

        assert (len(won), len(lost)) == (1, 5)
        events = await hub.store.events((await hub.store.headers("ada"))[0].key)
        assert [event.type for event in events].count("resolution") == 1

    async def test_an_expiry_fires_once_among_many_sweepers(
        self, kit: StoreKit, hub: Hub, clock: FakeClock
    ) -> None:
        """L29: whoever scheduled it may be dead."""
        conversation = await hub.open("ada", "c-1")
        await conversation.append(_asks("m1"))
        await hub.calls.interrupt("ada", "c-1", "m1/0", expires_in=60)
        clock.advance(seconds=60)

        async with kit.several(3, clock=clock) as stores:
            swept, _ = await race(*(Sweeper(store).sweep() for store in stores), loses=StaleCall)

        assert sum(map(len, swept)) == 1
        await conversation.refresh()
        [_, result] = _turns(conversation)
        assert (result.call_id, result.outcome) == ("m1/0", "expired")
        with pytest.raises(StaleCall):
            await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)

    async def test_a_late_write_to_a_deleted_conversation_brings_nothing_back(
        self, hub: Hub, other_hub: Hub
    ) -> None:
        """L16"""
        conversation = await hub.open("ada", "c-1")
        await conversation.append("Hi")
        await other_hub.conversations.delete("ada", "c-1")

        with pytest.raises(NotFound):
            await conversation.append("Still there?")
        await conversation.refresh()
        with pytest.raises(NotFound):
            await conversation.append("Still there?")

        assert await hub.conversations.get_or_none("ada", "c-1") is None


def _turns(conversation: Conversation) -> Any:
    """What a model gets, for tests that know what stands there."""
    return conversation.transcript()


def _asks(id: str) -> Message:
    return Message(id, "assistant", (Text("One moment."), ToolCall(f"{id}/0", "book", {"seat": "12A"})))
