"""Whole conversations: what a delete and an erase leave, which is nothing."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import NotFound, StaleHeader
from holdfast.model.records import Erased, Found
from holdfast.store import (
    Append,
    ConversationKey,
    DropRecords,
    OpenCall,
    PutRecord,
    SetHeader,
    Store,
    Tag,
    Wake,
)
from holdfast.testing.build import (
    TAGS,
    WORDS,
    a_conversation,
    a_key,
    a_rich_conversation,
    expired,
    interrupted,
    noted,
    put,
    said,
    seen,
)
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.leases import taken
from holdfast.testing.conformance.topic import Topic
from holdfast.testing.kit import StoreKit

RICH = Erased(conversations=1, events=4, calls=4, records=3, tags=2)
"""What ``a_rich_conversation`` has."""

SECRET = "zebraquark"


async def a_secret_conversation(store: Store, owner: str = "ada", secret: str = SECRET) -> ConversationKey:
    """A conversation that has the secret in every place that takes one."""
    key = ConversationKey(f"{owner}{secret}", f"id{secret}")
    fact = secret.encode()
    await store.commit(
        key,
        [
            Append(f"type{secret}", b'"data%s"' % fact, id=f"event{secret}", text=f"{secret} text"),
            Append("long", b'"%s"' % (fact * 5_000), text=f"{secret} " * 5_000),
            OpenCall(f"call{secret}", f"tool{secret}", data=b"args" + fact),
            PutRecord(f"collection{secret}", f"key{secret}", b"value" + fact),
            PutRecord("large", "key", fact * 5_000),
            Tag(f"name{secret}", f"value{secret}", f"ref{secret}"),
        ],
        token=f"token{secret}",
        create=SetHeader(
            title=f"title{secret}",
            status=f"status{secret}",
            agent=f"agent{secret}",
            metadata=b'"%s"' % fact,
            settings=b'"%s"' % fact,
        ),
    )
    await store.acquire(key, f"holder{secret}", ttl=10)
    return key


def traces(kit: StoreKit, store: Store, secret: str) -> int | None:
    """How often the secret is in the raw bytes, or None where nobody can or must look."""
    if kit.scan is None or not store.limits.scrub:
        return None
    return kit.scan().count(secret.encode())


class DeleteRules(Topic):
    async def test_a_delete_leaves_nothing_that_any_read_could_find(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_rich_conversation(store)
        clock.advance(seconds=100)
        assert await store.due() != []

        assert await store.delete(key) == RICH

        for reader in (store, other):
            await reader.settle()
            assert await reader.headers("ada") == []
            assert await reader.headers("ada", order="created") == []
            assert await reader.owners() == []
            assert await reader.open_calls("ada") == []
            assert await reader.due() == []
            assert await reader.claim("holder", ttl=10) == []
            for tag in TAGS:
                assert await reader.find("ada", *tag) == []
                assert await reader.headers("ada", tag=tag) == []
            for word in WORDS:
                assert await reader.search("ada", word) == []
            for read in (reader.header, reader.load, reader.events, reader.calls):
                with pytest.raises(NotFound):
                    await read(key)
            with pytest.raises(NotFound):
                await reader.records(key, "notes")

    async def test_a_delete_leaves_the_others(self, store: Store) -> None:
        await a_rich_conversation(store, "c-1")
        await a_rich_conversation(store, "c-1", "eve")
        before = await seen(store, "ada", "eve")

        key = await a_rich_conversation(store, "c-2")
        await store.delete(key)

        assert await seen(store, "ada", "eve") == before

    async def test_a_new_start_has_nothing_of_the_old(self, store: Store) -> None:
        key = await a_rich_conversation(store)
        await taken(store)
        await store.delete(key)

        await a_conversation(store)

        await store.settle()
        assert await store.events(key) == []
        assert await store.calls(key) == []
        assert await store.records(key, "notes") == []
        header = await store.header(key)
        assert (header.title, header.last_seq, header.wake_at, header.lease) == ("", 0, None, None)
        assert await store.find("ada", *TAGS[0]) == []
        assert await store.search("ada", "hello") == []
        commit = await store.commit(
            key, [said("hello", id="event-3"), interrupted("interrupted"), put("one", when=0)]
        )
        assert commit.seqs == (1,)

    async def test_a_late_writer_brings_nothing_back(self, store: Store, other: Store) -> None:
        """L16"""
        key = await a_rich_conversation(store)
        lease = await taken(store)
        await other.delete(key)

        for late in (
            [noted(1)],
            [put("a")],
            [Wake()],
            [SetHeader(title="late")],
            [Tag("a", "b")],
            [expired("x")],
        ):
            with pytest.raises(NotFound):
                await store.commit(key, late)
        with pytest.raises(NotFound):
            await store.commit(key, [noted(1)], fence=lease.fence, expect=4, token="t-1")
        await store.release(lease, defer=1)
        assert await store.renew([lease], ttl=10) == []

        assert await seen(store, "ada") == await seen(store, "nobody")

    async def test_a_delete_of_what_is_not_there_counts_as_nothing(self, store: Store) -> None:
        key = await a_conversation(store)

        assert await store.delete(a_key("missing")) == Erased()
        assert await store.delete(a_key("missing"), when=5) == Erased()
        await store.delete(key)
        assert await store.delete(key) == Erased()

    async def test_a_delete_with_when_needs_exactly_that_revision(self, store: Store) -> None:
        key = await a_conversation(store)
        old = (await store.header(key)).revision
        await store.commit(key, [noted(1)])
        now = (await store.header(key)).revision

        for wrong in (old, 0, now + 1):
            with pytest.raises(StaleHeader) as caught:
                await store.delete(key, when=wrong)
            assert (caught.value.key, caught.value.expected, caught.value.actual) == (key, wrong, now)
        assert await store.delete(key, when=now) == Erased(conversations=1, events=1)

    async def test_a_revision_does_not_delete_a_new_start(self, store: Store) -> None:
        """L2"""
        key = await a_conversation(store)
        old = (await store.header(key)).revision
        await store.delete(key)
        await a_conversation(store)

        with pytest.raises(StaleHeader):
            await store.delete(key, when=old)

        assert (await store.header(key)).key == key

    async def test_a_retention_sweep_spares_what_became_active(self, store: Store, other: Store) -> None:
        """L11: a delete by the revision that was listed."""
        for id in ("quiet", "active"):
            await a_conversation(store, id)
        listed = await store.headers("ada", order="created")
        await other.commit(a_key("active"), [said("hello")])

        for header in listed:
            try:
                await store.delete(header.key, when=header.revision)
            except StaleHeader:
                assert header.key.id == "active"

        assert [header.key.id for header in await store.headers("ada")] == ["active"]

    async def test_many_events_are_deleted_and_counted(self, store: Store) -> None:
        key = await a_conversation(store)
        for start in range(0, 3_000, 1_000):
            await store.commit(key, [noted(n) for n in range(start, start + 1_000)])

        assert await store.delete(key) == Erased(conversations=1, events=3_000)

        await a_conversation(store)
        assert await store.events(key) == []

    async def test_an_erase_counts_everything_of_its_owner_and_nothing_else(
        self, store: Store, other: Store
    ) -> None:
        for number in range(3):
            await a_rich_conversation(store, f"c-{number}", "ada")
        await a_rich_conversation(store, "c-1", "eve")
        before = await seen(store, "eve")

        assert await store.erase("ada") == RICH + RICH + RICH

        assert await seen(store, "eve") == await seen(other, "eve") == before
        assert await seen(store, "ada") == await seen(store, "nobody")
        assert await store.erase("ada") == Erased()

    async def test_an_erase_goes_over_more_conversations_than_a_page(self, store: Store) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(230):
                group.create_task(a_conversation(store, f"c-{number}", ops=[noted(1)]))

        assert await store.erase("ada") == Erased(conversations=230, events=230)

        assert await store.owners() == []

    @pytest.mark.parametrize("turns", [0, 1, 10, 50])
    async def test_an_interrupted_erase_goes_on_when_called_again(self, store: Store, turns: int) -> None:
        """L20"""
        for number in range(20):
            await a_conversation(store, f"c-{number}", ops=[noted(1)])
        erasing = asyncio.create_task(store.erase("ada"))
        for _ in range(turns):
            await asyncio.sleep(0)
        erasing.cancel()
        await asyncio.gather(erasing, return_exceptions=True)

        again = await store.erase("ada")

        assert again.conversations == again.events <= 20
        assert await store.headers("ada") == []
        assert await store.erase("ada") == Erased()

    @pytest.mark.parametrize("by", ["delete", "erase"])
    async def test_no_byte_is_left_after_a_scrub(self, store: Store, kit: StoreKit, by: str) -> None:
        kept = await a_conversation(store, "kept", "eve", says=["a kept thing"], ops=[Tag("a", "b")])
        key = await a_secret_conversation(store)
        assert traces(kit, store, SECRET) != 0

        await (store.delete(key) if by == "delete" else store.erase(key.owner))
        await store.scrub()

        await store.settle()
        assert traces(kit, store, SECRET) in (0, None)
        assert await store.owners() == ["eve"]
        assert [event.data for event in await store.events(kept)] == [b'{"text": "a kept thing"}']
        assert await store.find("eve", "a", "b") == [Found(kept, "")]
        assert [hit.seq for hit in await store.search("eve", "kept")] == [1]

    async def test_no_byte_of_a_dropped_record_is_left_after_a_scrub(
        self, store: Store, kit: StoreKit
    ) -> None:
        key = await a_conversation(store, ops=[put("a", SECRET.encode() * 3), put("b", b"kept")])
        assert traces(kit, store, SECRET) != 0

        await store.commit(key, [DropRecords("notes", "a")])
        await store.scrub()

        assert traces(kit, store, SECRET) in (0, None)
        assert [record.data for record in await store.records(key, "notes")] == [b"kept"]

    async def test_a_scrub_changes_nothing_that_can_be_read(self, store: Store, other: Store) -> None:
        await a_rich_conversation(store, "c-1")
        await a_rich_conversation(store, "c-2")
        await store.delete(a_key("c-1"))
        before = await seen(store, "ada")

        await asyncio.gather(store.scrub(), other.scrub())

        assert await seen(store, "ada") == await seen(other, "ada") == before
