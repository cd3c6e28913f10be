"""Owners: whatever their names look like, nothing of one is there for another."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import InvalidInput, InvalidKey, NotFound
from holdfast.model.records import Erased, Lease
from holdfast.store import Append, ConversationKey, Op, OpenCall, PutRecord, SetHeader, Store, Tag
from holdfast.testing.build import (
    TAGS,
    WORDS,
    a_conversation,
    a_key,
    a_rich_conversation,
    noted,
    said,
    seen,
)
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic

HOSTILE = [
    "a", "A", "á", "a\u0301", "a ", " a", "a\n", "a\t", "a.", "a\x01", "a\x1f", "a\x7f", "a\u200b", "a\ufeff",
    "ａ", "а", "ß", "ss", "ı", "i", "İ", "K", "\u212a", "ﬁ", "fi", "Å", "\u212b",
    "a/b", "a/b/c", "/", "//", "a:b", "a::b", ":", "a|b", "a\\b", "a#b", "a?b", "a&b", "a=b", "a;b", "a,b", "a{b}",
    "%", "%%", "_", "a%", "a_", "*", "a*", "?", "[a]", "'", '"', "''", "`", "$1", "?1", ":a", "@a", "--", "/*",
    "'; DROP TABLE events; --", '" OR 1=1 --', "../../etc/passwd", "..", ".", "C:\\con", "~", "null", "None", "0", "-1",
    "true", "%00", "\\0", "\\u0000", "&amp;", "<b>", "😀", "👩‍👩‍👧", "مرحبا", "שלום", "日本語", "\uffff", "\U0010ffff",
    "x" * 1023, "x" * 1024, "x" * 1023 + "y", "é" * 512, "😀" * 256,
]  # fmt: skip
"""Names that are legal and that some backend, path or query would confuse."""

ILLEGAL = ["", "\0", "a\0", "\0a", "\ud800", "a\udfff", "x" * 1025, "é" * 513, "😀" * 257, None, 5, b"a"]
"""What can't be a name."""


class OwnerRules(Topic):
    async def test_owners_with_hostile_names_are_apart(self, store: Store, other: Store) -> None:
        """L14: ids never collide across owners."""
        for number, owner in enumerate(HOSTILE):
            await a_conversation(
                store,
                "c-1",
                owner,
                ops=[noted(number), Tag("kind", "all"), PutRecord("n", "k", b"%d" % number)],
            )

        for number, owner in enumerate(HOSTILE):
            key = ConversationKey(owner, "c-1")
            assert (await other.header(key)).key == key
            assert [event.data for event in await other.events(key)] == [b"%d" % number]
            assert [record.data for record in await other.records(key, "n")] == [b"%d" % number]
            assert [header.key for header in await other.headers(owner)] == [key]
            assert [found.key for found in await other.find(owner, "kind", "all")] == [key]
        assert await other.owners(limit=1000) == sorted(HOSTILE)

    async def test_conversations_with_hostile_ids_are_apart(self, store: Store, other: Store) -> None:
        """L14"""
        for number, id in enumerate(HOSTILE):
            await a_conversation(store, id, ops=[noted(number), Tag("kind", "all")])
        await other.settle()

        for number, id in enumerate(HOSTILE):
            assert [event.data for event in await other.events(a_key(id))] == [b"%d" % number]
        assert [header.key.id for header in await other.headers("ada", limit=1000)] == sorted(
            HOSTILE, reverse=True
        )
        assert [found.key.id for found in await other.find("ada", "kind", "all")] == sorted(HOSTILE)

    async def test_deleting_by_a_hostile_key_deletes_that_one_alone(self, store: Store) -> None:
        """L14"""
        for name in HOSTILE:
            await a_conversation(store, name, name, ops=[noted(1)])

        left = list(HOSTILE)
        for name in HOSTILE[::7]:
            assert await store.erase(name) == Erased(conversations=1, events=1)
            left.remove(name)
            assert await store.owners(limit=1000) == sorted(left)

    async def test_an_owner_and_an_id_never_run_together(self, store: Store) -> None:
        """L14: separators."""
        pairs = [
            (owner, id)
            for mark in ("/", ":", " ", "|", "\x1f", "\n", ",", "-", "\\", "é")
            for owner, id in (
                (f"a{mark}b", "c"),
                ("a", f"b{mark}c"),
                (f"a{mark}", f"{mark}c"),
                (mark, f"a{mark}b{mark}c"),
            )
        ] + [("ab", "c"), ("a", "bc"), ("x" * 1024, "y"), ("x", "x" * 1024)]
        for number, (owner, id) in enumerate(pairs):
            await a_conversation(store, id, owner, ops=[noted(number)])

        for number, (owner, id) in enumerate(pairs):
            assert [e.data for e in await store.events(ConversationKey(owner, id))] == [b"%d" % number]

    async def test_hostile_names_inside_a_conversation_are_apart(
        self, store: Store, clock: FakeClock
    ) -> None:
        """L14: sub-paths."""
        key = await a_conversation(store)
        ops: list[Op] = []
        for name in HOSTILE:
            ops += [
                Append(name, b"1", id=name),
                OpenCall(name, name),
                PutRecord(name, name, name.encode()),
                PutRecord("c", name, name.encode()),
                Tag(name, "v", ref=name),
                Tag("n", name, ref=name),
            ]
        await store.commit(key, ops)

        assert [(e.type, e.id) for e in await store.events(key)] == [(name, name) for name in HOSTILE]
        assert [(c.call_id, c.name) for c in await store.calls(key)] == [(name, name) for name in HOSTILE]
        assert [r.key for r in await store.records(key, "c")] == sorted(HOSTILE)
        for name in HOSTILE:
            assert [c.call_id for c in await store.calls(key, call_ids=[name])] == [name]
            assert [r.data for r in await store.records(key, name)] == [name.encode()]
            assert [r.data for r in await store.records(key, "c", keys=[name])] == [name.encode()]
            prefixed = [r.key for r in await store.records(key, "c", prefix=name)]
            assert prefixed == sorted(other for other in HOSTILE if other.startswith(name))
            assert [f.ref for f in await store.find("ada", name, "v")] == [name]
            assert [f.ref for f in await store.find("ada", "n", name)] == [name]
            assert [h.key for h in await store.headers("ada", tag=("n", name))] == [key]

    async def test_holders_and_agents_with_hostile_names_are_apart(self, store: Store) -> None:
        """L14"""
        key = await a_conversation(store)
        for name in HOSTILE:
            await store.commit(key, [SetHeader(agent=name, status=name)])
            lease = await store.acquire(key, name, ttl=10)
            assert isinstance(lease, Lease)
            header = await store.header(key)
            assert (header.agent, header.status, header.lease) == (name, name, lease)
            others = [other for other in HOSTILE if other != name][:10]
            assert [await store.acquire(key, other, ttl=10) for other in others] == [None] * 10
            await store.release(lease)

    @pytest.mark.parametrize("name", ILLEGAL, ids=ascii)
    async def test_a_name_that_some_store_could_not_keep_is_refused(self, store: Store, name: str) -> None:
        """L14: NUL, lone surrogates, the empty and the too long name."""
        key = await a_rich_conversation(store)
        lease = await store.acquire(key, "holder", ttl=10)
        before = await seen(store, "ada")
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: store.commit(ConversationKey(name, "c-1"), [noted(1)], create=SetHeader()),
            lambda: store.commit(ConversationKey("ada", name), [noted(1)], create=SetHeader()),
            lambda: store.headers(name),
            lambda: store.open_calls(name),
            lambda: store.find(name, "topic", "travel"),
            lambda: store.search(name, "hello"),
            lambda: store.erase(name),
            lambda: store.records(key, name),
            lambda: store.fork(key, name),
            lambda: store.acquire(key, name, ttl=1),
            lambda: store.claim(name, ttl=1),
            lambda: store.commit(key, [Append(name, b"1")]),
            lambda: store.commit(key, [OpenCall(name, "tool")]),
            lambda: store.commit(key, [OpenCall("new", name)]),
            lambda: store.commit(key, [PutRecord(name, "k", b"")]),
            lambda: store.commit(key, [PutRecord("c", name, b"")]),
            lambda: store.commit(key, [Tag(name, "v")]),
            lambda: store.commit(key, [Tag("n", name)]),
        ]
        if name is not None:
            attempts += [
                lambda: store.commit(key, [noted(1)], token=name),
                lambda: store.commit(key, [Append("note", b"1", id=name)]),
            ]

        for attempt in attempts:
            with pytest.raises(InvalidKey):
                await attempt()

        assert await seen(store, "ada") == before
        assert (await store.header(key)).lease == lease

    @pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5_000, ""], ids=ascii)
    async def test_reading_by_a_name_that_can_not_be_finds_nothing_or_is_refused(
        self, store: Store, name: str
    ) -> None:
        key = await a_rich_conversation(store)
        reads: list[Callable[[], Awaitable[object]]] = [
            lambda: store.find("ada", name, "travel"),
            lambda: store.find("ada", "topic", name),
            lambda: store.headers("ada", tag=("topic", name)),
            lambda: store.calls(key, call_ids=[name]),
            lambda: store.records(key, "notes", keys=[name]),
            lambda: store.claim("holder", agents=[name], ttl=1),
        ]
        if name:
            reads.append(lambda: store.records(key, "notes", prefix=name))

        for read in reads:
            with contextlib.suppress(InvalidInput):
                assert await read() == []
        with contextlib.suppress(InvalidInput):
            assert (await store.load(key, records=[("notes", name)])).records == {}

    async def test_nothing_of_one_owner_is_visible_to_another(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        """L14: also under the same ids."""
        await a_rich_conversation(store, "c-1", "ada")
        await a_rich_conversation(store, "c-2", "ada")
        alone = await seen(store, "ada")
        await a_rich_conversation(store, "c-1", "eve")
        await a_rich_conversation(store, "c-3", "eve")
        clock.advance(seconds=100)

        both = await seen(other, "ada", "eve")
        for owner in ("ada", "eve"):
            keys = {header.key for header in both.by_creation if header.key.owner == owner}
            assert {h.key for h in await other.headers(owner)} == keys
            assert {h.key for h in await other.headers(owner, order="created")} == keys
            assert {c.key for c in await other.open_calls(owner)} == keys
            for tag in TAGS:
                assert {f.key for f in await other.find(owner, *tag)} == keys
                assert {h.key for h in await other.headers(owner, tag=tag)} == keys
            for word in WORDS:
                assert {hit.key for hit in await other.search(owner, word)} == keys
        now = await seen(store, "ada")
        assert (now.by_activity, now.events, now.calls) == (alone.by_activity, alone.events, alone.calls)
        assert (now.records, now.found, now.hits) == (alone.records, alone.found, alone.hits)

    async def test_another_owners_conversation_can_not_be_named(self, store: Store) -> None:
        key = await a_rich_conversation(store, "c-1", "ada")
        lease = await store.acquire(key, "holder", ttl=10)
        assert lease is not None
        before = await seen(store, "ada", "eve")
        hers = ConversationKey("eve", "c-1")
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: store.header(hers),
            lambda: store.load(hers),
            lambda: store.events(hers),
            lambda: store.calls(hers),
            lambda: store.records(hers, "notes"),
            lambda: store.inventory(hers),
            lambda: store.texts(hers),
            lambda: store.acquire(hers, "holder", ttl=10),
            lambda: store.commit(hers, [said("hello")]),
            lambda: store.commit(hers, [said("hello")], fence=lease.fence),
            lambda: store.fork(hers, "new"),
        ]

        for attempt in attempts:
            with pytest.raises(NotFound):
                await attempt()
        forged = Lease(hers, lease.holder, lease.fence, lease.until)
        await store.release(forged, defer=1)
        assert await store.renew([forged], ttl=99) == []
        assert await store.delete(hers) == Erased()
        assert await store.erase("eve") == Erased()

        assert await seen(store, "ada", "eve") == before

    async def test_the_same_id_of_two_owners_is_two_conversations(self, store: Store) -> None:
        mine = await a_conversation(store, "c-1", "ada", title="mine", ops=[said("mine", id="d-1")])
        hers = await a_conversation(store, "c-1", "eve", title="hers")

        commit = await store.commit(hers, [said("hers", id="d-1")])
        await store.delete(mine)

        assert commit.seqs == (1,)
        assert (await store.header(hers)).title == "hers"
        with pytest.raises(NotFound):
            await store.header(mine)
