"""Forks: a conversation that starts with another one's events."""

from __future__ import annotations

import pytest

from holdfast.errors import AlreadyExists, InvalidOp, NoSuchEvent, NotFound, StaleCall, StaleRecord
from holdfast.store import Op, Redact, Rest, SetHeader, Store, Tag, Wake
from holdfast.testing.build import (
    TAGS,
    a_conversation,
    a_key,
    a_rich_conversation,
    answered,
    noted,
    pending,
    put,
    said,
    seen,
    started,
)
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.leases import taken
from holdfast.testing.conformance.topic import Topic


class ForkRules(Topic):
    async def test_a_fork_has_the_events_and_what_describes_the_conversation(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_rich_conversation(store)
        await store.commit(
            key, [SetHeader(metadata=b'{"a": 1}', settings=b'{"b": 2}', status="running", tail=3)]
        )
        before = await seen(store, "ada")
        clock.advance(seconds=10)

        header = await store.fork(key, "fork")

        assert header == await other.header(a_key("fork"))
        assert (header.title, header.agent) == ("a trip", "guide")
        assert (header.metadata, header.settings) == (b'{"a": 1}', b'{"b": 2}')
        assert (header.forked_from, header.forked_at, header.last_seq) == ("c-1", 4, 4)
        assert (header.created_at, header.activity) == (clock(), clock())
        assert await other.events(a_key("fork")) == await store.events(key)
        await store.delete(a_key("fork"))
        assert await seen(store, "ada") == before

    async def test_a_fork_has_no_calls_tags_tokens_lease_or_work(self, store: Store) -> None:
        key = await a_rich_conversation(store)
        await store.commit(
            key, [said("hello", id="d-9"), SetHeader(status="running", tail=3, takeovers=2)], token="t-1"
        )
        await taken(store)

        header = await store.fork(key, "fork")

        fork = a_key("fork")
        assert (header.status, header.tail, header.takeovers) == ("idle", 1, 0)
        assert (header.lease, header.wake_at) == (None, None)
        assert await store.calls(fork) == []
        assert await store.records(fork, "notes") == []
        assert [found.key for found in await store.find("ada", *TAGS[0])] == [key]
        assert {call.key for call in await store.open_calls("ada")} == {key}
        commit = await store.commit(fork, [noted(6)], token="t-1")
        assert commit.seqs == (6,)

    async def test_a_fork_knows_the_ids_of_its_events(self, store: Store) -> None:
        """L4"""
        key = await a_conversation(
            store, ops=[said("one", id="d-1"), said("two", id="d-2"), said("three", id="d-3")]
        )

        await store.fork(key, "fork", at=2)
        commit = await store.commit(a_key("fork"), [said("again", id="d-2"), said("new", id="d-3")])

        assert commit.seqs == (2, 3)
        assert [e.id for e in await store.events(a_key("fork"))] == ["d-1", "d-2", "d-3"]

    @pytest.mark.parametrize("at", [0, 1, 2, 3, None])
    async def test_a_fork_ends_where_it_is_told(self, store: Store, at: int | None) -> None:
        key = await a_conversation(store, says=["one apple", "two apples", "three apples"])
        end = 3 if at is None else at

        header = await store.fork(key, "fork", at=at)

        await store.settle()
        assert (header.last_seq, header.forked_at) == (end, end)
        assert await store.events(a_key("fork")) == (await store.events(key))[:end]
        assert {hit.seq for hit in await store.search("ada", "app") if hit.key.id == "fork"} == set(
            range(1, end + 1)
        )
        assert (await store.commit(a_key("fork"), [noted(1)], expect=end)).seqs == (end + 1,)

    @pytest.mark.parametrize("at", [-1, 4, 2**40])
    async def test_a_fork_at_no_place_of_the_log_is_refused(self, store: Store, at: int) -> None:
        key = await a_conversation(store, says=["one", "two", "three"])

        with pytest.raises(InvalidOp):
            await store.fork(key, "fork", at=at)

        with pytest.raises(NotFound):
            await store.header(a_key("fork"))

    async def test_a_fork_gets_the_records_of_the_collections_it_names(self, store: Store) -> None:
        key = await a_rich_conversation(store)

        await store.fork(key, "fork", collections=["media", "unknown"])

        assert await store.records(a_key("fork"), "notes") == []
        [record] = await store.records(a_key("fork"), "media")
        assert (record.key, record.data) == ("photo", b"\x00\xff")
        with pytest.raises(StaleRecord):
            await store.commit(a_key("fork"), [put("photo", collection="media", when=0)])
        await store.commit(a_key("fork"), [put("photo", b"new", collection="media", when=record.revision)])
        assert [r.data for r in await store.records(key, "media")] == [b"\x00\xff"]

    async def test_operations_on_top_are_part_of_the_fork(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, says=["one", "two"], title="old")

        header = await store.fork(
            key,
            "fork",
            at=1,
            ops=[
                said("three"),
                SetHeader(title="new", tail=2),
                pending("call_1"),
                put("a"),
                Tag("topic", "travel"),
                Wake(),
                Redact(1),
            ],
        )

        fork = a_key("fork")
        assert header == await store.header(fork)
        assert (header.title, header.tail, header.last_seq, header.wake_at) == ("new", 2, 2, clock())
        assert [event.type for event in await store.events(fork)] == ["redacted", "message"]
        assert [call.call_id for call in await store.calls(fork)] == ["call_1"]
        assert [record.key for record in await store.records(fork, "notes")] == ["a"]
        assert [found.key for found in await store.find("ada", "topic", "travel")] == [fork]
        assert [event.type for event in await store.events(key)] == ["message", "message"]

    @pytest.mark.parametrize(
        ("op", "error"),
        [
            (started("interrupted"), StaleCall),
            (answered("missing"), StaleCall),
            (put("photo", collection="media", when=0), StaleRecord),
            (Redact(5), NoSuchEvent),
            (Rest(), InvalidOp),
        ],
    )
    async def test_a_fork_whose_operations_fail_is_not_made(
        self, store: Store, op: Op, error: type[Exception]
    ) -> None:
        key = await a_rich_conversation(store)
        before = await seen(store, "ada")

        with pytest.raises(error):
            await store.fork(
                key, "fork", collections=["media"], ops=[said("hello"), put("a"), op, Tag(*TAGS[0])]
            )

        assert await seen(store, "ada") == before

    @pytest.mark.parametrize("id", ["c-1", "there"])
    async def test_a_fork_never_replaces_a_conversation(self, store: Store, id: str) -> None:
        key = await a_rich_conversation(store)
        await a_conversation(store, "there", says=["hello"])
        before = await seen(store, "ada")

        with pytest.raises(AlreadyExists) as caught:
            await store.fork(key, id, ops=[said("on top")])

        assert caught.value.key == a_key(id)
        assert await seen(store, "ada") == before

    async def test_a_fork_stays_with_its_owner(self, store: Store) -> None:
        await a_conversation(store, "c-1", "ada", says=["hello"])
        await a_conversation(store, "fork", "eve", says=["hers"])

        header = await store.fork(a_key("c-1"), "fork")

        await store.settle()
        assert header.key == a_key("fork", "ada")
        assert [hit.key.owner for hit in await store.search("eve", "hello")] == []
        assert (await store.header(a_key("fork", "eve"))).forked_from is None

    async def test_a_fork_and_its_source_go_on_alone(self, store: Store) -> None:
        key = await a_conversation(store, says=["one"])
        await store.fork(key, "fork")

        await store.commit(key, [said("left")])
        await store.commit(a_key("fork"), [said("right")])
        await store.delete(key)

        await store.settle()
        assert [event.seq for event in await store.events(a_key("fork"))] == [1, 2]
        assert [hit.key.id for hit in await store.search("ada", "one")] == ["fork"]
        assert (await store.header(a_key("fork"))).forked_from == "c-1"

    async def test_a_redacted_event_stays_redacted_in_a_fork(self, store: Store) -> None:
        key = await a_conversation(store, says=["a secret", "hello"])
        await store.commit(key, [Redact(1)])

        await store.fork(key, "fork")

        await store.settle()
        assert await store.events(a_key("fork")) == await store.events(key)
        assert await store.search("ada", "secret") == []
        assert {hit.key.id for hit in await store.search("ada", "hello")} == {"c-1", "fork"}

    async def test_a_redaction_does_not_reach_across_a_fork(self, store: Store) -> None:
        key = await a_conversation(store, says=["a secret"])
        await store.fork(key, "fork")

        await store.commit(key, [Redact(1)])

        await store.settle()
        assert [event.type for event in await store.events(a_key("fork"))] == ["message"]
        assert [hit.key.id for hit in await store.search("ada", "secret")] == ["fork"]

    async def test_a_fork_of_a_fork_names_the_one_it_was_made_from(self, store: Store) -> None:
        key = await a_conversation(store, says=["one", "two", "three"])

        await store.fork(key, "child", at=2)
        header = await store.fork(a_key("child"), "grandchild", at=1)

        assert (header.forked_from, header.forked_at) == ("child", 1)
        assert await store.events(a_key("grandchild")) == (await store.events(key))[:1]

    async def test_a_fork_counts_as_new_for_every_guard(self, store: Store) -> None:
        """L2"""
        key = await a_conversation(store, ops=[put("a")])
        first = await store.fork(key, "fork", collections=["notes"])
        [old] = await store.records(a_key("fork"), "notes")
        await store.delete(a_key("fork"))

        second = await store.fork(key, "fork", collections=["notes"])

        [new] = await store.records(a_key("fork"), "notes")
        assert first.revision != second.revision
        assert first.version != second.version
        assert old.revision != new.revision

    async def test_a_fork_begins_now_even_if_its_events_are_from_later(
        self, store: Store, clock: FakeClock
    ) -> None:
        """L1: a clock that went back."""
        key = await a_conversation(store, says=["one"])
        clock.advance(seconds=-10)

        header = await store.fork(key, "fork")

        await store.settle()
        assert (header.created_at, header.activity) == (clock(), clock())
        assert await store.headers("ada") == [await store.header(key), header]

    async def test_a_long_conversation_is_forked_whole(self, store: Store) -> None:
        key = await a_conversation(store)
        for start in range(0, 3_000, 1_000):
            await store.commit(key, [noted(n) for n in range(start, start + 1_000)])

        header = await store.fork(key, "fork", at=2_500)

        events = await store.events(a_key("fork"))
        assert header.last_seq == len(events) == 2_500
        assert [event.data for event in events] == [b"%d" % n for n in range(2_500)]
