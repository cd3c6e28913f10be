"""A copy arrives through every store there is."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from tests.servers import url_of
from tests.test_copying import OWNERS, fill, plain

from holdfast.copying import copy
from holdfast.store import Store, connect
from holdfast.store.memory import MemoryStore
from holdfast.testing import FakeClock
from holdfast.testing.build import seen

from .mysql import empty_tables
from .objects_service import CREDENTIALS, Service
from .postgres import empty_schema


@pytest.fixture
def urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return [
        f"sqlite:///{tmp_path}/a.db",
        empty_schema(),
        empty_tables(),
        f"{url_of('valkey')}?durability=memory&prefix={uuid4().hex}",
        f"file://{tmp_path}/objects?durability=os",
        Service.of_this_run().url,
        f"sqlite:///{tmp_path}/b.db",
    ]


@pytest.mark.anyio
@pytest.mark.server("postgres")
@pytest.mark.server("mariadb")
@pytest.mark.server("valkey")
@pytest.mark.server("seaweed")
async def test_conversations_go_through_every_store_unchanged(urls: list[str]) -> None:
    clock = FakeClock()
    async with AsyncExitStack() as stores:
        before: Store = await stores.enter_async_context(MemoryStore(clock=clock))
        await fill(before, clock)
        expected = plain(await seen(before, *OWNERS), clock)
        for url in urls:
            store = await stores.enter_async_context(connect(url, clock=clock))

            copied = await copy(before, store, clock=clock)

            assert copied.problems == ()
            assert plain(await seen(store, *OWNERS), clock) == expected
            before = store
