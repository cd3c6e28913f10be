"""What applications rely on holds on every store there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.servers import url_of

from holdfast.hub import Hub
from holdfast.persistence import AgentStates, DisplayMessages
from holdfast.testing import ConversationConformance, FakeClock, PersistenceConformance, StoreKit

from .mysql import empty_tables
from .postgres import empty_schema


class Both(ConversationConformance, PersistenceConformance):
    """The typed helpers, and the behaviours over them."""

    @pytest.fixture
    async def hub(self, kit: StoreKit, clock: FakeClock) -> AsyncIterator[Hub]:
        async with Hub(kit.connect(clock=clock), clock=clock) as hub:
            yield hub

    @pytest.fixture
    def agent_persistence(self, hub: Hub) -> AgentStates:
        return hub.agent_states

    @pytest.fixture
    def display_persistence(self, hub: Hub) -> DisplayMessages:
        return hub.display_messages

    @pytest.fixture
    async def conversation_id(self, hub: Hub, scope: str) -> str:
        return (await hub.conversations.create(scope, "c-1")).id


class TestOnObjects(Both):
    @pytest.fixture
    def kit(self, tmp_path: Path) -> StoreKit:
        return StoreKit(f"file://{tmp_path}/store?poll=0.05&durability=os")


@pytest.mark.server("postgres")
class TestOnPostgres(Both):
    @pytest.fixture
    def kit(self) -> StoreKit:
        return StoreKit(empty_schema())


@pytest.mark.server("mariadb")
class TestOnMariaDB(Both):
    @pytest.fixture
    def kit(self) -> StoreKit:
        return StoreKit(empty_tables())


@pytest.mark.server("valkey")
class TestOnValkey(Both):
    @pytest.fixture
    def kit(self) -> StoreKit:
        return StoreKit(f"{url_of('valkey')}?durability=memory&prefix={uuid4().hex}&shards=4")
