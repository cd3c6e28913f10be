"""Lists of conversations: a defined order, and pages that hold while others write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest

from holdfast.errors import InvalidOp
from holdfast.model.records import Header
from holdfast.store import Store, Tag, Untag
from holdfast.store.backend import Cursor, Order
from holdfast.testing.build import a_conversation, a_key, said
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic

ORDERS: list[Order] = ["activity", "created"]


def _place(header: Header, order: Order) -> Cursor:
    return (header.activity if order == "activity" else header.created_at, header.key.id)


async def _pages(
    store: Store, order: Order, limit: int, tag: tuple[str, str] | None = None
) -> AsyncIterator[list[Header]]:
    before = None
    while page := await store.headers("ada", tag=tag, order=order, before=before, limit=limit):
        before = _place(page[-1], order)
        yield page


async def _ids(store: Store, order: Order, limit: int = 50, tag: tuple[str, str] | None = None) -> list[str]:
    await store.settle()
    return [header.key.id async for page in _pages(store, order, limit, tag) for header in page]


class ListRules(Topic):
    async def test_the_last_active_conversation_comes_first(self, store: Store, clock: FakeClock) -> None:
        """L11"""
        for id in ("a", "b", "c"):
            await a_conversation(store, id)
            clock.advance(seconds=1)

        await store.commit(a_key("a"), [said("hello")])

        assert await _ids(store, "activity") == ["a", "c", "b"]
        assert await _ids(store, "created") == ["c", "b", "a"]

    async def test_what_follows_a_settle_is_listed_and_found_too(
        self, store: Store, clock: FakeClock
    ) -> None:
        for id in ("a", "b"):
            await a_conversation(store, id)
        for number in range(3):
            clock.advance(seconds=1)
            await store.commit(a_key("a"), [said(f"word{number}")])

            assert await _ids(store, "activity") == ["a", "b"]
            [first, _] = await store.headers("ada")
            assert (first.last_seq, first.activity) == (number + 1, clock())
            assert [hit.seq for hit in await store.search("ada", f"word{number}")] == [number + 1]

    @pytest.mark.parametrize("order", ORDERS)
    async def test_equal_times_are_ordered_by_id_descending(self, store: Store, order: Order) -> None:
        """L1: a frozen clock."""
        ids = ["b", "a", "é", "Z", "\ufb00", "\U0001f600", "a/1", "a%"]
        for id in ids:
            await a_conversation(store, id)

        for limit in (1, 3, 50):
            assert await _ids(store, order, limit) == sorted(ids, reverse=True)

    @pytest.mark.parametrize("order", ORDERS)
    async def test_pages_put_together_are_the_whole_list(
        self, store: Store, clock: FakeClock, order: Order
    ) -> None:
        """L10"""
        for number in range(13):
            await a_conversation(store, f"c-{number % 7}-{number}")
            clock.advance(seconds=number % 3)
        await store.settle()
        whole = await store.headers("ada", order=order)

        for limit in (1, 2, 5, 12, 13, 14):
            paged = [header async for page in _pages(store, order, limit) for header in page]
            assert paged == whole
        assert [_place(h, order) for h in whole] == sorted((_place(h, order) for h in whole), reverse=True)
        assert len(whole) == 13

    @pytest.mark.parametrize("order", ORDERS)
    async def test_what_does_not_change_is_on_exactly_one_page_while_others_write(
        self, store: Store, other: Store, clock: FakeClock, order: Order
    ) -> None:
        """L10: paging is stable under writes."""
        for number in range(12):
            await a_conversation(store, f"c-{number:02}")
            clock.advance(seconds=1)
        restless = [a_key("c-03"), a_key("c-08")]
        listed: list[str] = []

        async for page in _pages(store, order, 3):
            listed += [header.key.id for header in page]
            clock.advance(seconds=1)
            for key in restless:
                await other.commit(key, [said("me again")])
            await a_conversation(other, f"new-{len(listed)}")
            await store.settle()

        quiet = [f"c-{n:02}" for n in reversed(range(12)) if n not in (3, 8)]
        assert [id for id in listed if id in quiet] == quiet

    async def test_a_sweep_by_creation_skips_nothing_while_conversations_become_active(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        """L10"""
        ids = [f"c-{number:02}" for number in range(12)]
        for id in ids:
            await a_conversation(store, id)
            clock.advance(seconds=1)
        swept: list[str] = []

        async for page in _pages(store, "created", 2):
            swept += [header.key.id for header in page]
            clock.advance(seconds=1)
            for id in ids[::3]:
                await other.commit(a_key(id), [said("me again")])

        assert swept == ids[::-1]

    async def test_a_sweep_goes_on_although_what_it_saw_last_is_deleted(
        self, store: Store, clock: FakeClock
    ) -> None:
        for number in range(6):
            await a_conversation(store, f"c-{number}")
            clock.advance(seconds=1)
        swept: list[str] = []

        async for page in _pages(store, "created", 2):
            for header in page:
                swept.append(header.key.id)
                await store.delete(header.key)

        assert swept == [f"c-{n}" for n in reversed(range(6))]
        assert await store.headers("ada") == []

    @pytest.mark.parametrize("order", ORDERS)
    async def test_a_list_by_tag_has_each_conversation_once(
        self, store: Store, clock: FakeClock, order: Order
    ) -> None:
        for number in range(9):
            key = await a_conversation(store, f"c-{number}")
            if number % 2:
                await store.commit(key, [Tag("topic", "travel", ref) for ref in ("", "one", "two")])
            else:
                await store.commit(key, [Tag("topic", "food"), Tag("travel", "topic")])
            clock.advance(seconds=1)
        await a_conversation(store, "c-1", "eve", ops=[Tag("topic", "travel")])

        for limit in (1, 2, 50):
            assert await _ids(store, order, limit, ("topic", "travel")) == ["c-7", "c-5", "c-3", "c-1"]
        assert await _ids(store, order, 50, ("topic", "nothing")) == []

    async def test_a_conversation_leaves_the_list_of_a_tag_with_its_last_ref(self, store: Store) -> None:
        key = await a_conversation(store, ops=[Tag("topic", "travel", "one"), Tag("topic", "travel", "two")])

        await store.commit(key, [Untag("topic", "travel", "one")])
        assert await _ids(store, "activity", tag=("topic", "travel")) == ["c-1"]
        await store.commit(key, [Untag("topic", "travel", "two")])

        assert await _ids(store, "activity", tag=("topic", "travel")) == []

    async def test_a_list_has_the_same_headers_as_each_conversation_alone(self, store: Store) -> None:
        for number in range(3):
            await a_conversation(store, f"c-{number}", says=["one"], title=f"trip {number}", agent="guide")
        await store.acquire(a_key("c-1"), "holder", ttl=10)
        await store.settle()

        for order in ORDERS:
            for header in await store.headers("ada", order=order):
                assert header == await store.header(header.key)

    async def test_only_the_order_of_a_list_may_be_behind_and_not_what_it_says(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store)

        for number in range(20):
            clock.advance(seconds=1)
            await store.commit(key, [said(f"{number}")])

            for reader in (store, other):
                assert await reader.headers("ada", order="created") == [await reader.header(key)]
                assert await reader.headers("ada") == [await reader.header(key)]

    async def test_the_default_page_has_fifty(self, store: Store) -> None:
        for number in range(51):
            await a_conversation(store, f"c-{number}")
        await store.settle()

        assert len(await store.headers("ada")) == 50
        assert len(await store.headers("ada", limit=1000)) == 51

    async def test_an_order_that_does_not_exist_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidOp):
            await store.headers("ada", order=cast(Order, "title"))

    async def test_an_unknown_owner_has_no_conversations(self, store: Store) -> None:
        await a_conversation(store)

        assert await store.headers("nobody") == []
        assert await store.headers("nobody", order="created") == []

    async def test_owners_come_by_code_point_and_in_pages(self, store: Store) -> None:
        owners = sorted(["b", "a", "Z", "é", "\ufb00", "\U0001f600", "a/1", "a%", "ab"])
        for owner in reversed(owners):
            await a_conversation(store, "one", owner)
            await a_conversation(store, "two", owner)

        assert await store.owners() == owners
        paged: list[str] = []
        while page := await store.owners(after=paged[-1] if paged else "", limit=2):
            paged += page
        assert paged == owners

    async def test_an_owner_without_conversations_is_none(self, store: Store) -> None:
        key = await a_conversation(store)
        await a_conversation(store, owner="eve")

        await store.delete(key)

        assert await store.owners() == ["eve"]
