"""A hub over each store that needs no server; another store is one more line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.hub import Hub
from holdfast.testing import FakeClock, StoreKit


@pytest.fixture(params=["memory", "sqlite"])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> StoreKit:
    if request.param == "memory":
        return StoreKit(f"memory://{uuid4()}")
    return StoreKit(f"sqlite:///{tmp_path}/a.db")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def hub(kit: StoreKit, clock: FakeClock) -> AsyncIterator[Hub]:
    async with Hub(kit.connect(clock=clock), clock=clock) as hub:
        yield hub
