"""
The two behaviours that an application may bring itself: where an agent's state goes, and where rows for people go.

Each takes the caller's scope first. An application without either works all the same: the log has everything.
``AgentStates`` and ``DisplayMessages`` are both over a Holdfast store.
"""

from holdfast.persistence.behaviours import (
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
    quietly,
)
from holdfast.persistence.display import DisplayMessages
from holdfast.persistence.states import AgentStates

__all__ = [
    "AgentPersistence",
    "AgentStates",
    "DisplayMessagePersistence",
    "DisplayMessages",
    "HookContext",
    "Lifecycle",
    "PersistContext",
    "ResolvesToolResults",
    "SavesSyntheticMessages",
    "SyntheticMessage",
    "ToolInfo",
    "ToolStatus",
    "quietly",
]
