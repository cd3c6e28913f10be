"""The PostgreSQL store behind a proxy that gives each transaction another connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.servers import url_of

from holdfast.store import Append, Store
from holdfast.testing import FakeClock, StoreKit
from holdfast.testing.build import a_conversation, noted
from holdfast.testing.conformance.calls import CallRules
from holdfast.testing.conformance.cancel import CancelRules
from holdfast.testing.conformance.fork import ForkRules
from holdfast.testing.conformance.races import RaceRules
from holdfast.testing.conformance.watch import WatchRules

from .postgres import empty_schema
from .wires import Pooler


@pytest.fixture(scope="module")
def pooler() -> Iterator[Pooler]:
    with Pooler(url_of("postgres"), connections=3) as pooler:
        yield pooler


@pytest.mark.server("postgres")
class TestBehindAPooler(CallRules, ForkRules, RaceRules, WatchRules, CancelRules):
    @pytest.fixture
    def kit(self, pooler: Pooler) -> Iterator[StoreKit]:
        query = empty_schema().partition("?")[2]
        yield StoreKit(f"{pooler.url}?{query}&pooling=transaction")
        assert pooler.named == 0

    async def test_statements_of_one_store_run_on_several_connections(
        self, store: Store, pooler: Pooler
    ) -> None:
        key = await a_conversation(store)
        before = len(pooler.served)

        async def use(number: int) -> None:
            await store.commit(key, [noted(number), Append("message", b"1", text="hello")], token=f"{number}")
            await store.search("ada", "hello")

        await asyncio.gather(*(use(number) for number in range(20)))

        assert len(await store.events(key)) == 40
        assert any(len(used) > 1 for used in pooler.served[before:])

    async def test_the_store_says_what_it_can_not_do_there(self, store: Store) -> None:
        assert store.limits.signals == "process"
        assert store.limits.watch_delay < 1

    async def test_a_migration_works_there_too(self, kit: StoreKit, clock: FakeClock) -> None:
        store = kit.connect(clock=clock)

        await asyncio.gather(store.migrate(), kit.connect().migrate())

        assert await store.pending_migrations() == []
