"""
What tests of stores, and of whatever is built on them, need.

``StoreConformance`` tries every rule of the store contract on a store that a ``StoreKit`` opens;
``ConversationConformance`` tries what applications rely on above it, and ``PersistenceConformance`` the
two behaviours that an application may bring itself. ``FakeClock`` is time that a test moves; ``holdfast.testing.build`` makes conversations in a line.
"""

from __future__ import annotations

from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.conversations import ConversationConformance
from holdfast.testing.conformance.persistence import (
    AgentPersistenceConformance,
    DisplayMessagePersistenceConformance,
    PersistenceConformance,
)
from holdfast.testing.conformance.suite import StoreConformance
from holdfast.testing.kit import StoreKit, StoreMaker

__all__ = [
    "AgentPersistenceConformance",
    "ConversationConformance",
    "DisplayMessagePersistenceConformance",
    "FakeClock",
    "PersistenceConformance",
    "StoreConformance",
    "StoreKit",
    "StoreMaker",
]
