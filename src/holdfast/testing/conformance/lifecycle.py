"""Opening and closing: a store that is not open says so, and what it took is there when it is open again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import InvalidOp, StoreClosed
from holdfast.ids import ConversationKey
from holdfast.model.records import Commit, Lease
from holdfast.store import SetHeader, Store, Tag
from holdfast.testing.build import a_conversation, a_key, a_rich_conversation, noted, put, said, seen
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic, race
from holdfast.testing.kit import StoreKit


def _uses(store: Store) -> list[Callable[[], Awaitable[object]]]:
    key, lease = a_key(), Lease(a_key(), "holder", 1, 1)

    async def watch() -> None:
        async with store.watch([key]):
            pass

    return [
        lambda: store.commit(key, [noted(1)], create=SetHeader()),
        lambda: store.header(key),
        lambda: store.load(key),
        lambda: store.events(key),
        lambda: store.calls(key),
        lambda: store.records(key, "notes"),
        lambda: store.inventory(key),
        lambda: store.texts(key),
        lambda: store.headers("ada"),
        lambda: store.owners(),
        lambda: store.open_calls("ada"),
        lambda: store.find("ada", "topic", "travel"),
        lambda: store.search("ada", "hello"),
        lambda: store.due(),
        lambda: store.acquire(key, "holder", ttl=1),
        lambda: store.claim("holder", ttl=1),
        lambda: store.renew([lease], ttl=1),
        lambda: store.release(lease),
        lambda: store.signal(key, b"cancel"),
        lambda: store.delete(key),
        lambda: store.erase("ada"),
        lambda: store.fork(key, "fork"),
        lambda: store.settle(),
        lambda: store.scrub(),
        watch,
    ]


class LifecycleRules(Topic):
    async def test_a_store_that_is_not_open_says_so(self, kit: StoreKit) -> None:
        store = kit.connect()

        for use in _uses(store):
            with pytest.raises(StoreClosed):
                await use()

    async def test_a_store_that_was_closed_says_so(self, kit: StoreKit, store: Store) -> None:
        await a_conversation(store, says=["hello"])
        async with kit.open() as closed:
            await closed.header(a_key())

        for use in _uses(closed):
            with pytest.raises(StoreClosed):
                await use()

        assert len(await store.events(a_key())) == 1

    async def test_opening_and_closing_twice_is_once(self, kit: StoreKit) -> None:
        store = kit.connect()

        assert await store.open() is store
        assert await store.open() is store
        await a_conversation(store)
        await store.close()
        await store.close()

        with pytest.raises(StoreClosed):
            await store.header(a_key())

    async def test_closing_what_was_never_open_does_nothing(self, kit: StoreKit) -> None:
        await kit.connect().close()

    async def test_a_closed_store_can_be_opened_again(self, kit: StoreKit, clock: FakeClock) -> None:
        store = kit.connect(clock=clock)
        async with store:
            await a_conversation(store, says=["one"])

        async with store:
            commit = await store.commit(a_key(), [said("two")])
            async with store.watch([a_key()]):
                assert [event.seq for event in await store.events(a_key())] == [1, 2]

        assert commit.seqs == (2,)

    async def test_a_store_that_is_opened_again_has_everything(self, kit: StoreKit, clock: FakeClock) -> None:
        async with kit.open(clock=clock) as store:
            key = await a_rich_conversation(store)
            lease = await store.acquire(key, "holder", ttl=10)
            first = await store.commit(key, [said("hello", id="d-1"), put("a")], token="t-1")
            before = await seen(store, "ada")

        async with kit.open(clock=clock) as store:
            assert await seen(store, "ada") == before
            assert (await store.header(key)).lease == lease
            assert await store.commit(key, [said("hello", id="d-1"), put("a")], token="t-1") == first
            assert (await store.commit(key, [said("new", id="d-1"), noted(6)])).seqs == (5, 6)

    async def test_numbers_do_not_come_back_after_a_new_open(self, kit: StoreKit, clock: FakeClock) -> None:
        """L2"""
        numbers: list[tuple[int, int, int, int]] = []

        for _ in range(3):
            async with kit.open(clock=clock) as store:
                key = await a_conversation(store)
                commit = await store.commit(key, [put("a")])
                lease = await store.acquire(key, "holder", ttl=10)
                header = await store.header(key)
                assert lease is not None
                numbers.append((header.revision, header.version, commit.revisions[0], lease.fence))
                await store.delete(key)

        for kind in zip(*numbers, strict=True):
            assert len(set(kind)) == 3

    async def test_closing_waits_for_what_was_accepted(self, kit: StoreKit, clock: FakeClock) -> None:
        async with kit.open(clock=clock) as store, kit.open(clock=clock) as other:
            key = await a_conversation(store)
            writing = [asyncio.create_task(store.commit(key, [noted(n)])) for n in range(30)]
            await asyncio.sleep(0)

            await store.close()

            won, _ = await race(*writing, loses=StoreClosed)
            assert all(isinstance(commit, Commit) for commit in won)
            assert len(won) == 30
            events = await other.events(key)
            assert {event.seq for event in events} == {commit.seqs[0] for commit in won}

    async def test_closing_ends_what_is_watched(self, kit: StoreKit, clock: FakeClock) -> None:
        store = await kit.connect(clock=clock).open()
        key = await a_conversation(store)

        async def watch(keys: list[ConversationKey] | None, ready: asyncio.Event) -> None:
            async with store.watch(keys) as notices:
                ready.set()
                async for _ in notices:
                    pass

        for keys in ([key], None):
            ready = asyncio.Event()
            watching = asyncio.create_task(watch(keys, ready))
            await ready.wait()
            await store.close()
            async with asyncio.timeout(30):
                await watching
            await store.open()
        await store.close()

    async def test_several_stores_are_opened_at_once(self, kit: StoreKit, clock: FakeClock) -> None:
        """L8: also at the very first open."""
        stores = [kit.connect(clock=clock) for _ in range(8)]

        await asyncio.gather(*(store.open() for store in stores))

        commits = await asyncio.gather(
            *(store.commit(a_key(), [noted(n)], create=SetHeader()) for n, store in enumerate(stores))
        )
        assert sorted(seq for commit in commits for seq in commit.seqs) == list(range(1, 9))
        for store in stores:
            assert len(await store.events(a_key())) == 8
        await asyncio.gather(*(store.close() for store in stores))

    async def test_one_store_opened_by_two_tasks_at_once_is_opened_once(
        self, kit: StoreKit, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise what the first one opened is never closed."""
        store = kit.connect(clock=clock)
        opening, opened = store._open, 0

        async def count() -> None:
            nonlocal opened
            opened += 1
            await opening()

        monkeypatch.setattr(store, "_open", count)

        await asyncio.gather(store.open(), store.open())

        assert opened == 1
        await a_conversation(store, says=["hello"])
        await store.close()
        with pytest.raises(StoreClosed):
            await store.header(a_key())

    async def test_a_store_without_a_clock_uses_its_own(self, kit: StoreKit) -> None:
        async with kit.open() as store:
            before = await a_conversation(store)
            first = (await store.header(before)).created_at
            lease = await store.acquire(before, "holder", ttl=60)
            commit = await store.commit(before, [noted(1), Tag("a", "b")])

            assert lease is not None
            assert first > 1_577_836_800_000_000
            assert first <= commit.at < lease.until

    async def test_a_store_that_was_opened_has_no_migrations_left(self, kit: StoreKit, store: Store) -> None:
        key = await a_conversation(store, says=["hello"])

        assert await store.pending_migrations() == []
        await asyncio.gather(*(kit.connect().migrate() for _ in range(4)))

        assert await kit.connect().pending_migrations() == []
        assert len(await store.events(key)) == 1

    async def test_a_store_says_what_it_can_not_do(self, store: Store) -> None:
        limits = store.limits

        assert limits.durability in ("memory", "os", "disk", "replicated")
        assert limits.max_commit >= 16 << 20
        assert limits.index_lag >= 0
        assert limits.watch_delay >= 0

    @pytest.mark.parametrize("ops", [[5], ["append"], [None], [{"op": "Append"}]])
    async def test_what_is_no_operation_is_refused(self, store: Store, ops: list[object]) -> None:
        key = await a_conversation(store)

        with pytest.raises(InvalidOp):
            await store.commit(key, ops)  # type: ignore[arg-type]
        with pytest.raises(InvalidOp):
            await store.commit(("ada", "c-1"), [noted(1)])  # type: ignore[arg-type]
        with pytest.raises(InvalidOp):
            await store.commit(key, [noted(1)], expect=-1)
        with pytest.raises(InvalidOp):
            await store.commit(key, [noted(1)], fence=1.5)  # type: ignore[arg-type]

        assert (await store.header(key)).last_seq == 0
