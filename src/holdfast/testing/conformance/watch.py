"""Watching: a change is noticed in time, wherever it was made; signals are a bonus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import ClassVar

import pytest

from holdfast.ids import ConversationKey
from holdfast.model.records import Notice
from holdfast.store import SetHeader, Store, Wake
from holdfast.testing.build import a_conversation, a_key, noted
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic


class WatchRules(Topic):
    slack: ClassVar[float] = 10.0
    """Seconds that a busy machine may be late beyond what the store promises."""

    async def hinted(self, store: Store, notices: AsyncIterator[Notice], key: ConversationKey) -> None:
        """Wait until a change of the conversation is noticed."""
        async with asyncio.timeout(store.limits.watch_delay + self.slack):
            async for notice in notices:
                if notice.payload is None and notice.key in (key, None):
                    return
        raise AssertionError("the watch ended")

    async def signalled(self, notices: AsyncIterator[Notice], send: Callable[[], Awaitable[None]]) -> Notice:
        """Signal again and again, for signals can be lost, until one arrives."""

        async def repeat() -> None:
            while True:
                await send()
                await asyncio.sleep(0.01)

        sending = asyncio.create_task(repeat())
        try:
            async with asyncio.timeout(self.slack):
                async for notice in notices:
                    if notice.payload is not None:
                        return notice
        finally:
            sending.cancel()
        raise AssertionError("the watch ended")

    @pytest.mark.parametrize("instance", ["same", "other"])
    @pytest.mark.parametrize("all", [True, False])
    @pytest.mark.parametrize("change", ["append", "wake", "create", "defer", "fork"])
    async def test_a_change_is_noticed(
        self, store: Store, other: Store, clock: FakeClock, instance: str, all: bool, change: str
    ) -> None:
        writer = store if instance == "same" else other
        there = await a_conversation(store, "there", says=["one"])
        lease = await store.acquire(there, "holder", ttl=10)
        assert lease is not None
        key = {"create": a_key("new"), "fork": a_key("fork")}.get(change, there)
        changes: dict[str, Callable[[], Awaitable[object]]] = {
            "append": lambda: writer.commit(there, [noted(1)]),
            "wake": lambda: writer.commit(there, [Wake()]),
            "create": lambda: writer.commit(key, [noted(1)], create=SetHeader()),
            "defer": lambda: writer.release(lease, defer=5),
            "fork": lambda: writer.fork(there, "fork"),
        }

        async with store.watch(None if all else [key]) as notices:
            await changes[change]()

            await self.hinted(store, notices, key)

    async def test_changes_are_noticed_again_and_again(self, store: Store, other: Store) -> None:
        key = await a_conversation(store)

        async with store.watch([key]) as notices:
            for number in range(5):
                await (store if number % 2 else other).commit(key, [noted(number)])
                await self.hinted(store, notices, key)

    async def test_a_change_before_the_first_look_is_noticed(self, store: Store) -> None:
        """L41: subscribe, then snapshot."""
        key = await a_conversation(store)

        async with store.watch([key]) as notices:
            for number in range(50):
                await store.commit(key, [noted(number)])

            await self.hinted(store, notices, key)
            assert len(await store.events(key)) == 50

    async def test_every_watcher_gets_its_own_hints(self, store: Store, other: Store) -> None:
        keys = [await a_conversation(store, f"c-{n}") for n in range(3)]

        async with (
            store.watch([keys[0]]) as first,
            store.watch(keys) as second,
            other.watch([keys[2], keys[0]]) as third,
            other.watch() as fourth,
        ):
            await store.commit(keys[0], [noted(1)])

            await self.hinted(store, first, keys[0])
            await self.hinted(store, second, keys[0])
            await self.hinted(other, third, keys[0])
            await self.hinted(other, fourth, keys[0])

    async def test_a_change_wakes_a_watcher_that_waits(self, store: Store, other: Store) -> None:
        key = await a_conversation(store)

        async with store.watch([key]) as notices:
            waiting = asyncio.create_task(self.hinted(store, notices, key))
            await asyncio.sleep(0)
            await other.commit(key, [noted(1)])

            await waiting

    async def test_a_signal_reaches_who_watches_the_conversation(self, store: Store) -> None:
        key = await a_conversation(store)
        payload = bytes(range(256))

        for keys in ([key], None):
            async with store.watch(keys) as notices:
                notice = await self.signalled(notices, lambda: store.signal(key, payload))

            assert notice == Notice(key, payload)

    async def test_a_signal_reaches_other_instances_where_the_store_says_so(
        self, store: Store, other: Store
    ) -> None:
        if store.limits.signals != "everywhere":
            pytest.skip("signals of this store stay in their process")
        key = await a_conversation(store)

        async with other.watch([key]) as notices:
            notice = await self.signalled(notices, lambda: store.signal(key, b"cancel"))

        assert notice == Notice(key, b"cancel")

    async def test_a_signal_of_another_conversation_does_not_arrive(self, store: Store) -> None:
        mine = await a_conversation(store, "c-1", "ada")
        hers = await a_conversation(store, "c-1", "eve")

        async def send() -> None:
            await store.signal(hers, b"hers")
            await store.signal(mine, b"mine")

        async with store.watch([mine]) as notices:
            notice = await self.signalled(notices, send)

        assert notice == Notice(mine, b"mine")

    async def test_a_signal_stores_nothing(self, store: Store) -> None:
        key = await a_conversation(store)
        before = await store.header(key)

        await store.signal(key, b"cancel")
        await store.signal(a_key("missing"), b"cancel")

        assert await store.header(key) == before
        assert [header.key for header in await store.headers("ada")] == [key]

    async def test_a_watch_that_was_left_and_one_that_nobody_reads_disturb_nobody(self, store: Store) -> None:
        key = await a_conversation(store)

        async with store.watch([key]):
            async with store.watch([key]) as notices:
                await store.commit(key, [noted(0)])
                await self.hinted(store, notices, key)
            for number in range(100):
                await store.commit(key, [noted(number)])
                await store.signal(key, b"cancel")

        assert (await store.header(key)).last_seq == 101

    async def test_a_watcher_that_is_cancelled_leaves_the_store_usable(self, store: Store) -> None:
        """L20"""
        key = await a_conversation(store)

        async def watch() -> None:
            async with store.watch([key]) as notices:
                async for _ in notices:
                    pass

        for turns in range(5):
            watching = asyncio.create_task(watch())
            for _ in range(turns):
                await asyncio.sleep(0)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        async with store.watch([key]) as notices:
            await store.commit(key, [noted(1)])
            await self.hinted(store, notices, key)
