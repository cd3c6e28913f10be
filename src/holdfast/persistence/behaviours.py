"""What an application that brings its own persistence implements."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable
from uuid import uuid4

import msgspec

from holdfast.model import JSON
from holdfast.views import Row, Turn

Lifecycle = Literal[
    "on_completion", "on_cancel", "on_error", "on_interrupt", "on_title_generated", "on_shutdown"
]
"""Why a state is persisted now."""

ToolStatus = Literal["executing", "completed", "failed", "interrupted", "cancelled"]
"""What a tool card can be told."""

_T = TypeVar("_T")

_log = logging.getLogger("holdfast.persistence")


class HookContext(msgspec.Struct, frozen=True):
    """Which agent and conversation a call is about."""

    agent_id: str
    conversation_id: str


class PersistContext(HookContext, frozen=True):
    """The same, and why the state is persisted."""

    lifecycle: Lifecycle = "on_completion"


class ToolInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What is known of a call when its status changes.

    ``result`` comes with completed, ``error`` with failed; ``display_text`` and ``metadata`` are for its card
    and are added to what it has.
    """

    call_id: str
    name: str = ""
    display_text: str | None = None
    result: JSON = None
    error: str | None = None
    metadata: dict[str, JSON] = {}


class SyntheticMessage(msgspec.Struct, frozen=True):
    """A row that no model wrote: an answer to a question, a cancellation, an error. Saved once by its ``id``."""

    kind: str
    content: dict[str, JSON]
    id: str = msgspec.field(default_factory=lambda: f"row_{uuid4().hex}")


@runtime_checkable
class AgentPersistence(Protocol):
    """Where the state of agents goes. Errors are logged and reported; they never stop an agent."""

    async def load_state(self, scope: Any, context: HookContext) -> Mapping[str, JSON] | None:
        """
        What was persisted last for this agent, or None.

        None also for a conversation that is not this scope's.
        """
        ...

    async def persist_state(self, scope: Any, state: Mapping[str, JSON], context: PersistContext) -> None:
        """Keep a state as ``AgentState.to_serialized`` gives it, in the place of the one before."""
        ...


@runtime_checkable
class DisplayMessagePersistence(Protocol):
    """Where rows for people go. Each call may come again after a crash: what was saved is not saved twice."""

    async def save_message(self, scope: Any, message: Turn, context: HookContext) -> Sequence[Row]:
        """Keep a message or a tool's result as one or more rows, in order; the rows that were saved."""
        ...

    async def update_tool_status(
        self, scope: Any, status: ToolStatus, tool: ToolInfo, context: HookContext
    ) -> Row | None:
        """Change the card of a call; the card, or None if there is no such call."""
        ...


@runtime_checkable
class ResolvesToolResults(Protocol):
    """What a ``DisplayMessagePersistence`` may also do."""

    async def resolve_tool_result(
        self, scope: Any, call_id: str, content: object, context: HookContext
    ) -> Row | None:
        """Put the real result in the place of one that was waited for; None if no such call waits."""
        ...


@runtime_checkable
class SavesSyntheticMessages(Protocol):
    """What a ``DisplayMessagePersistence`` may also do."""

    async def save_synthetic_message(
        self, scope: Any, message: SyntheticMessage, context: HookContext
    ) -> Row:
        """Keep a row that no model wrote."""
        ...


async def quietly(work: Awaitable[_T], *, report: Callable[[Exception], None] | None = None) -> _T | None:
    """
    Wait for a behaviour; if it fails, log it, report it and go on with None.

    >>> import asyncio
    >>> async def works() -> str:
    ...     return "saved"
    >>> asyncio.run(quietly(works()))
    'saved'
    """
    try:
        return await work
    except Exception as exc:
        _log.exception("persistence failed")
        if report is not None:
            report(exc)
        return None
