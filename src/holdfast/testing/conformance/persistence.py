"""What an agent and its viewers rely on, whoever brings the persistence."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from holdfast.errors import HoldfastError
from holdfast.model import Message, Suspension, Text, Thinking, Todo, ToolCall, ToolResult
from holdfast.persistence import (
    AgentPersistence,
    DisplayMessagePersistence,
    HookContext,
    Lifecycle,
    PersistContext,
    ResolvesToolResults,
    SavesSyntheticMessages,
    SyntheticMessage,
    ToolInfo,
    ToolStatus,
)
from holdfast.views import AgentState, Row
from holdfast.views.display import CallContent, NotificationContent, ResultContent, TextContent


class _Behaviour:
    """Whoever inherits it gives two scopes that are strangers, and a conversation that is the first one's."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def scope(self) -> Any:
        return "ada"

    @pytest.fixture
    def other_scope(self) -> Any:
        return "eve"

    @pytest.fixture
    def conversation_id(self) -> str:
        raise NotImplementedError("give a fixture conversation_id: a conversation of `scope` that is there")


def _state(*texts: str, **fields: Any) -> dict[str, Any]:
    messages = tuple(Message(f"m{number}", "user", (Text(text),)) for number, text in enumerate(texts))
    state: dict[str, Any] = json.loads(json.dumps(AgentState("travel", messages, **fields).to_serialized()))
    return state


class AgentPersistenceConformance(_Behaviour):
    """
    What an ``AgentPersistence`` promises. Give fixtures ``agent_persistence`` and ``conversation_id``.

    ``scope`` and ``other_scope`` are strings unless they are given too.
    """

    @pytest.fixture
    def agent_persistence(self) -> AgentPersistence:
        raise NotImplementedError("give a fixture agent_persistence")

    async def test_it_is_an_agent_persistence(self, agent_persistence: AgentPersistence) -> None:
        assert isinstance(agent_persistence, AgentPersistence)

    async def test_what_was_never_persisted_is_none(
        self, agent_persistence: AgentPersistence, scope: Any, conversation_id: str
    ) -> None:
        assert await agent_persistence.load_state(scope, HookContext("travel", conversation_id)) is None
        assert await agent_persistence.load_state(scope, HookContext("travel", "no such thing")) is None

    async def test_a_state_comes_back_as_it_was(
        self, agent_persistence: AgentPersistence, scope: Any, conversation_id: str
    ) -> None:
        state = AgentState(
            "travel",
            (Message("m1", "assistant", (Text("é \u2028 \x00 𝕏"), ToolCall("m1/1", "book", {"n": 2**80}))),),
            (Todo("1", "book", "in_progress"),),
            {"seat": "12A", "b": [1.5, None, {"a": True}]},
            (Suspension("m1/1", 1, "approval", prompt="Book?"),),
        )

        await agent_persistence.persist_state(
            scope, state.to_serialized(), PersistContext("travel", conversation_id, "on_interrupt")
        )
        loaded = await agent_persistence.load_state(scope, HookContext("travel", conversation_id))

        assert loaded is not None
        assert AgentState.from_serialized("travel", loaded) == state
        assert AgentState.from_serialized("travel", json.dumps(loaded)) == state

    @pytest.mark.parametrize("lifecycle", get_args(Lifecycle))
    async def test_the_last_state_counts_whatever_it_was_persisted_for(
        self,
        agent_persistence: AgentPersistence,
        scope: Any,
        conversation_id: str,
        lifecycle: Lifecycle,
    ) -> None:
        long, short = _state(*map(str, range(100))), _state("only", metadata={"a": 1})

        for state in (_state("first"), long, short):
            await agent_persistence.persist_state(
                scope, state, PersistContext("travel", conversation_id, lifecycle)
            )
            assert await agent_persistence.load_state(scope, HookContext("travel", conversation_id)) == state

    async def test_agents_of_one_conversation_are_apart(
        self, agent_persistence: AgentPersistence, scope: Any, conversation_id: str
    ) -> None:
        for agent in ("a", "a/b", "a/m", "b"):
            await agent_persistence.persist_state(
                scope, _state(agent), PersistContext(agent, conversation_id)
            )

        for agent in ("a", "a/b", "a/m", "b"):
            loaded = await agent_persistence.load_state(scope, HookContext(agent, conversation_id))
            assert loaded == _state(agent)

    async def test_another_scope_finds_nothing_and_changes_nothing(
        self, agent_persistence: AgentPersistence, scope: Any, other_scope: Any, conversation_id: str
    ) -> None:
        """S12"""
        await agent_persistence.persist_state(
            scope, _state("mine"), PersistContext("travel", conversation_id)
        )

        assert await agent_persistence.load_state(other_scope, HookContext("travel", conversation_id)) is None
        with pytest.raises(Exception, match=r"no conversation|not found"):
            await agent_persistence.persist_state(
                other_scope, _state("theirs"), PersistContext("travel", conversation_id)
            )
        loaded = await agent_persistence.load_state(scope, HookContext("travel", conversation_id))
        assert loaded == _state("mine")


class DisplayMessagePersistenceConformance(_Behaviour):
    """
    What a ``DisplayMessagePersistence`` promises. Give fixtures ``display_persistence`` and ``conversation_id``.

    What it may do besides is tried if it does it.
    """

    @pytest.fixture
    def display_persistence(self) -> DisplayMessagePersistence:
        raise NotImplementedError("give a fixture display_persistence")

    @pytest.fixture
    def context(self, conversation_id: str) -> HookContext:
        return HookContext("travel", conversation_id)

    async def test_it_is_a_display_message_persistence(
        self, display_persistence: DisplayMessagePersistence
    ) -> None:
        assert isinstance(display_persistence, DisplayMessagePersistence)

    async def test_one_message_gives_several_rows_in_order(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        message = Message(
            "m1", "assistant", (Thinking("hm"), Text("Let me see."), ToolCall("m1/2", "find", {"n": 1}))
        )

        rows = await display_persistence.save_message(scope, message, context)

        assert [row.kind for row in rows] == ["thinking", "text", "tool_call"]
        assert _card(rows[-1]).status == "pending"
        assert len({row.id for row in rows}) == 3

    async def test_a_message_that_is_saved_again_is_not_saved_twice(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        """S23: stable ids, so that each row reaches each subscriber once."""
        message = Message("m1", "assistant", (Text("Hi"), ToolCall("m1/1", "find")))

        first = await display_persistence.save_message(scope, message, context)
        again = await display_persistence.save_message(scope, message, context)

        assert [row.id for row in again] == [row.id for row in first]

    @pytest.mark.parametrize(
        ("path", "last"),
        [
            (("executing", "completed"), "completed"),
            (("executing", "failed"), "failed"),
            (("executing", "cancelled"), "cancelled"),
            (("interrupted", "executing", "completed"), "completed"),
            (("interrupted", "cancelled"), "cancelled"),
            (("interrupted", "failed"), "failed"),
            (("interrupted", "completed"), "completed"),
            (("completed",), "completed"),
        ],
    )
    async def test_a_card_follows_its_call(
        self,
        display_persistence: DisplayMessagePersistence,
        scope: Any,
        context: HookContext,
        path: tuple[ToolStatus, ...],
        last: str,
    ) -> None:
        """S22"""
        [saved] = await display_persistence.save_message(
            scope, Message("m1", "assistant", (ToolCall("m1/0", "find"),)), context
        )

        for status in path:
            tool = ToolInfo("m1/0", "find", result="HF101", error="no net")
            row = await display_persistence.update_tool_status(scope, status, tool, context)
            assert row is not None
            assert (row.id, _card(row).status) == (saved.id, status)

        assert row is not None
        assert _card(row).status == last

    async def test_a_status_that_is_told_again_changes_nothing(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        await display_persistence.save_message(
            scope, Message("m1", "assistant", (ToolCall("m1/0", "find"),)), context
        )
        tool = ToolInfo("m1/0", "find", result="HF101")

        rows = [
            await display_persistence.update_tool_status(scope, "completed", tool, context) for _ in range(2)
        ]

        assert rows[0] == rows[1]

    async def test_metadata_of_a_card_merges(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        """S22"""
        await display_persistence.save_message(
            scope, Message("m1", "assistant", (ToolCall("m1/0", "find"),)), context
        )
        for metadata in ({"a": 1, "b": 1}, {"b": 2}):
            tool = ToolInfo("m1/0", display_text="Looking…", metadata=metadata)
            row = await display_persistence.update_tool_status(scope, "executing", tool, context)

        assert row is not None
        assert {"a": 1, "b": 2, "display_text": "Looking…"}.items() <= _card(row).metadata.items()

    async def test_an_illegal_move_is_refused(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        """S11"""
        await display_persistence.save_message(
            scope, Message("m1", "assistant", (ToolCall("m1/0", "find"),)), context
        )
        tool = ToolInfo("m1/0", "find", result="done")
        await display_persistence.update_tool_status(scope, "completed", tool, context)

        with pytest.raises(Exception, match=r".") as caught:
            await display_persistence.update_tool_status(scope, "executing", tool, context)
        assert isinstance(caught.value, (HoldfastError, ValueError))

    async def test_an_unknown_call_is_not_found(
        self,
        display_persistence: DisplayMessagePersistence,
        scope: Any,
        other_scope: Any,
        context: HookContext,
    ) -> None:
        """S22, S12"""
        await display_persistence.save_message(
            scope, Message("m1", "assistant", (ToolCall("m1/0", "find"),)), context
        )
        mine, unknown = ToolInfo("m1/0"), ToolInfo("no such call")

        assert await display_persistence.update_tool_status(scope, "executing", unknown, context) is None
        assert await display_persistence.update_tool_status(other_scope, "executing", mine, context) is None

    async def test_a_result_has_a_row_of_its_own(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        await display_persistence.save_message(
            scope, Message("m1", "assistant", (ToolCall("m1/0", "find"),)), context
        )
        result = ToolResult("m1/0", "ok", (Text("HF101"),))

        [row] = await display_persistence.save_message(scope, result, context)
        [again] = await display_persistence.save_message(scope, result, context)

        assert row.id == again.id
        assert isinstance(row.content, ResultContent)
        assert row.content.parts == (Text("HF101"),)

    async def test_a_result_that_was_waited_for_is_replaced_by_the_real_one(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        """S25"""
        if not isinstance(display_persistence, ResolvesToolResults):
            pytest.skip("it resolves no results")
        await display_persistence.save_message(
            scope, Message("m1", "assistant", (ToolCall("m1/0", "ask_child"),)), context
        )
        await display_persistence.update_tool_status(scope, "interrupted", ToolInfo("m1/0"), context)

        row = await display_persistence.resolve_tool_result(scope, "m1/0", "the child says so", context)
        late = await display_persistence.resolve_tool_result(scope, "m1/0", "too late", context)

        assert row is not None
        assert isinstance(row.content, ResultContent)
        assert row.content.parts == (Text("the child says so"),)
        assert late is None
        assert await display_persistence.resolve_tool_result(scope, "unknown", "?", context) is None

    async def test_a_row_that_no_model_wrote_is_kept_once(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        """S24"""
        if not isinstance(display_persistence, SavesSyntheticMessages):
            pytest.skip("it saves no synthetic messages")
        said = SyntheticMessage("text", {"text": "Window, please."}, id="answer-1")
        stopped = SyntheticMessage("notification", {"text": "Cancelled.", "level": "warning"})

        row = await display_persistence.save_synthetic_message(scope, said, context)
        again = await display_persistence.save_synthetic_message(scope, said, context)
        other = await display_persistence.save_synthetic_message(scope, stopped, context)

        assert row.content == TextContent("Window, please.")
        assert row.id == again.id != other.id
        assert other.content == NotificationContent("Cancelled.", "warning")

    async def test_a_row_of_no_kind_or_of_another_shape_is_refused(
        self, display_persistence: DisplayMessagePersistence, scope: Any, context: HookContext
    ) -> None:
        """S21"""
        if not isinstance(display_persistence, SavesSyntheticMessages):
            pytest.skip("it saves no synthetic messages")
        for wrong in (SyntheticMessage("poem", {"text": "O"}), SyntheticMessage("text", {"txt": "O"})):
            with pytest.raises(ValueError, match=r"kind|text"):
                await display_persistence.save_synthetic_message(scope, wrong, context)

    async def test_another_scope_saves_nothing(
        self,
        display_persistence: DisplayMessagePersistence,
        other_scope: Any,
        context: HookContext,
    ) -> None:
        """S12"""
        for turn in (Message("m1", "user", (Text("Hi"),)), ToolResult("m1/0", "ok", (Text("Hi"),))):
            with pytest.raises(Exception, match=r"no conversation|not found"):
                await display_persistence.save_message(other_scope, turn, context)


class PersistenceConformance(AgentPersistenceConformance, DisplayMessagePersistenceConformance):
    """
    Both behaviours of one application, tried::

        class TestMyPersistence(PersistenceConformance):
            @pytest.fixture
            def agent_persistence(self) -> MyAgentPersistence: ...

            @pytest.fixture
            def display_persistence(self) -> MyDisplayMessages: ...

            @pytest.fixture
            async def conversation_id(self, scope) -> str: ...
    """


def _card(row: Row) -> CallContent:
    assert isinstance(row.content, CallContent)
    return row.content
