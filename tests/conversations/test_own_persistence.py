"""The suite for behaviours takes an implementation that knows nothing of our stores, and refuses wrong ones."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast.model import JSON, Call, Event, Message, encode, type_of
from holdfast.persistence import HookContext, PersistContext, ToolInfo, ToolStatus
from holdfast.store import ConversationKey
from holdfast.testing import AgentPersistenceConformance, PersistenceConformance
from holdfast.views import Row, Turn, rows
from holdfast.views.display import CallContent


class Missing(LookupError):
    """What an application of its own raises."""


class OwnStates:
    """An application's table of states, as a dict."""

    def __init__(self) -> None:
        self.saved: dict[tuple[str, str], Mapping[str, JSON]] = {}

    async def load_state(self, scope: Any, context: HookContext) -> Mapping[str, JSON] | None:
        if scope != "ada":
            return None
        return copy.deepcopy(self.saved.get((context.conversation_id, context.agent_id)))

    async def persist_state(self, scope: Any, state: Mapping[str, JSON], context: PersistContext) -> None:
        if scope != "ada":
            raise Missing("not found")
        self.saved[context.conversation_id, context.agent_id] = copy.deepcopy(state)


class OwnRows:
    """An application's table of rows, without what it may do besides."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.status: dict[str, ToolStatus] = {}
        self.cards: dict[str, dict[str, JSON]] = {}

    async def save_message(self, scope: Any, message: Turn, context: HookContext) -> Sequence[Row]:
        if scope != "ada":
            raise Missing("not found")
        id = message.id if isinstance(message, Message) else f"result of {message.call_id}"
        event = Event(len(self.events) + 1, type_of(message), encode(message), 0)
        return rows([self.events.setdefault(id, event)])

    async def update_tool_status(
        self, scope: Any, status: ToolStatus, tool: ToolInfo, context: HookContext
    ) -> Row | None:
        found = [row for row in rows(self.events.values()) if _is_card(row, tool.call_id)]
        if scope != "ada" or not found:
            return None
        if self.status.get(tool.call_id, status) != status and self.status[tool.call_id] in (
            "completed",
            "failed",
        ):
            raise ValueError("it is over")
        self.status[tool.call_id] = status
        card = self.cards.setdefault(tool.call_id, {})
        card.update(tool.metadata, **({"display_text": tool.display_text} if tool.display_text else {}))
        call = Call(ConversationKey("ada", context.conversation_id), tool.call_id, tool.name, status)
        [row] = [row for row in rows(self.events.values(), [call]) if _is_card(row, tool.call_id)]
        assert isinstance(row.content, CallContent)
        row.content.metadata.update(card)
        return row


def _is_card(row: Row, call_id: str) -> bool:
    return isinstance(row.content, CallContent) and row.content.call_id == call_id


class TestOwn(PersistenceConformance):
    @pytest.fixture
    def agent_persistence(self) -> OwnStates:
        return OwnStates()

    @pytest.fixture
    def display_persistence(self) -> OwnRows:
        return OwnRows()

    @pytest.fixture
    def conversation_id(self) -> str:
        return "c-1"


class Forgets(OwnStates):
    async def persist_state(self, scope: Any, state: Mapping[str, JSON], context: PersistContext) -> None:
        self.saved.setdefault((context.conversation_id, context.agent_id), state)


class Shares(OwnStates):
    async def load_state(self, scope: Any, context: HookContext) -> Mapping[str, JSON] | None:
        return self.saved.get((context.conversation_id, context.agent_id))


class Mixes(OwnStates):
    async def persist_state(self, scope: Any, state: Mapping[str, JSON], context: PersistContext) -> None:
        await super().persist_state(scope, state, PersistContext("all", context.conversation_id))

    async def load_state(self, scope: Any, context: HookContext) -> Mapping[str, JSON] | None:
        return await super().load_state(scope, HookContext("all", context.conversation_id))


@pytest.mark.parametrize("wrong", [Forgets, Shares, Mixes])
def test_the_suite_finds_what_is_wrong(wrong: type[OwnStates]) -> None:
    suite = AgentPersistenceConformance()
    given = {"scope": "ada", "other_scope": "eve", "conversation_id": "c-1", "lifecycle": "on_error"}
    failed = []
    for name, test in inspect.getmembers(suite, inspect.iscoroutinefunction):
        wanted = inspect.signature(test).parameters
        arguments = {key: value for key, value in given.items() if key in wanted}
        try:
            asyncio.run(test(agent_persistence=wrong(), **arguments))
        except (AssertionError, pytest.fail.Exception):
            failed.append(name)

    assert failed
