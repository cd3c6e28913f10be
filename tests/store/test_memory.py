"""The memory store keeps the contract that it specifies."""

from __future__ import annotations

import pickle
from uuid import uuid4

import pytest

from holdfast.store.memory import MemoryStore
from holdfast.testing import StoreConformance, StoreKit


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def kit(self) -> StoreKit:
        url = f"memory://{uuid4()}"

        def scan() -> bytes:
            conversations = MemoryStore(url)._world.conversations.values()
            return pickle.dumps([vars(conversation) for conversation in conversations])

        return StoreKit(url, scan=scan)
