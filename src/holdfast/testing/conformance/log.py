"""The log: numbers, order, ranges, known ids, and where a conversation begins."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import AlreadyExists, InvalidOp, NotFound, SeqConflict
from holdfast.store import ABSENT, Append, SetHeader, Store
from holdfast.testing.build import a_call, a_conversation, a_key, interrupted, noted, put, said
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic


class LogRules(Topic):
    async def test_numbers_start_at_one_and_follow_the_order_of_the_operations(self, store: Store) -> None:
        key = await a_conversation(store)

        first = await store.commit(key, [noted(10), noted(20)])
        second = await store.commit(key, [noted(30)])

        assert (first.seqs, second.seqs) == ((1, 2), (3,))
        assert [(e.seq, e.data) for e in await store.events(key)] == [(1, b"10"), (2, b"20"), (3, b"30")]

    async def test_numbers_are_counted_per_conversation(self, store: Store) -> None:
        left = await a_conversation(store, "left", says=["one", "two", "three"])
        right = await a_conversation(store, "right")

        commit = await store.commit(right, [noted(1)])

        assert commit.seqs == (1,)
        assert (await store.header(left)).last_seq == 3

    async def test_an_event_comes_back_as_it_was_appended(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store)
        clock.advance(seconds=7)

        await store.commit(key, [Append("odd type/é", b'{ "b":1, "a":2 }', id="delivery 1", text="anything")])

        [event] = await store.events(key)
        assert (event.type, event.data, event.at, event.id) == (
            "odd type/é",
            b'{ "b":1, "a":2 }',
            clock(),
            "delivery 1",
        )

    async def test_a_commit_says_where_the_log_ended_before_and_after(
        self, store: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store, says=["one", "two"])

        commit = await store.commit(key, [noted(3), put("a"), noted(4)])

        assert (commit.seqs, commit.prev_seq, commit.last_seq, commit.at) == ((3, 4), 2, 4, clock())
        assert len(commit.revisions) == 1
        assert (await store.header(key)).last_seq == 4

    async def test_a_commit_without_appends_leaves_the_log(self, store: Store) -> None:
        key = await a_conversation(store, says=["one"])

        empty = await store.commit(key, [])
        titled = await store.commit(key, [SetHeader(title="new")])

        assert (empty.seqs, empty.prev_seq, empty.last_seq) == ((), 1, 1)
        assert (titled.seqs, titled.prev_seq, titled.last_seq) == ((), 1, 1)
        assert len(await store.events(key)) == 1

    async def test_another_instance_reads_what_was_committed(self, store: Store, other: Store) -> None:
        key = await a_conversation(store, says=["one"])

        commit = await other.commit(key, [said("two")])

        assert commit.seqs == (2,)
        assert await store.events(key) == await other.events(key)
        assert await store.header(key) == await other.header(key)

    async def test_a_range_is_exclusive_ascending_and_its_limit_keeps_the_newest(self, store: Store) -> None:
        key = await a_conversation(store, ops=[noted(n) for n in range(1, 6)])

        for after, before, limit in itertools.product(
            (-1, 0, 1, 3, 5, 6, 2**40), (None, 0, 1, 2, 4, 6, 7, 2**40), (None, 1, 2, 5, 100)
        ):
            events = await store.events(key, after=after, before=before, limit=limit)

            inside = [n for n in range(1, 6) if after < n and (before is None or n < before)]
            newest = inside if limit is None else inside[-limit:]
            assert [e.seq for e in events] == newest, (after, before, limit)

    @pytest.mark.parametrize("limit", [0, -1, 1.5, True, "3"])
    async def test_a_limit_is_a_whole_number_from_one_up(self, store: Store, limit: int) -> None:
        key = await a_conversation(store, says=["one"])

        with pytest.raises(InvalidOp):
            await store.events(key, limit=limit)
        with pytest.raises(InvalidOp):
            await store.records(key, "notes", limit=limit)
        with pytest.raises(InvalidOp):
            await store.headers("ada", limit=limit)
        with pytest.raises(InvalidOp):
            await store.due(limit=limit)
        with pytest.raises(InvalidOp):
            await store.search("ada", "one", limit=limit)

    async def test_a_known_id_appends_nothing_and_gives_its_number(self, store: Store, other: Store) -> None:
        """L4: the same delivery twice is one event."""
        key = await a_conversation(store, ops=[noted(1), Append("webhook", b'"first"', id="d-1")])

        again = await store.commit(key, [Append("webhook", b'"second"', id="d-1", text="second")])
        elsewhere = await other.commit(key, [Append("other", b'"third"', id="d-1")])

        await store.settle()
        assert (again.seqs, again.prev_seq, again.last_seq) == ((2,), 2, 2)
        assert elsewhere.seqs == (2,)
        assert [e.data for e in await store.events(key)] == [b"1", b'"first"']
        assert await store.search("ada", "second") == []

    async def test_an_id_given_twice_in_one_commit_is_one_event(self, store: Store) -> None:
        """L4"""
        key = await a_conversation(store, ops=[Append("webhook", b'"old"', id="old")])

        commit = await store.commit(
            key,
            [
                Append("webhook", b'"a"', id="new", text="mauve"),
                noted(3),
                Append("webhook", b'"b"', id="new", text="crimson"),
                Append("webhook", b'"c"', id="old"),
                noted(4),
            ],
        )

        await store.settle()
        assert commit.seqs == (2, 3, 2, 1, 4)
        assert [e.data for e in await store.events(key)] == [b'"old"', b'"a"', b"3", b"4"]
        assert [hit.seq for hit in await store.search("ada", "mauve")] == [2]
        assert await store.search("ada", "crimson") == []

    async def test_ids_of_events_belong_to_their_conversation(self, store: Store) -> None:
        left = await a_conversation(store, "left", ops=[noted(1), said("one", id="d-1")])
        right = await a_conversation(store, "right")

        commit = await store.commit(right, [said("two", id="d-1")])

        assert commit.seqs == (1,)
        assert [e.seq for e in await store.events(left) if e.id == "d-1"] == [2]

    async def test_order_is_by_number_even_if_the_clock_stands_still_or_goes_back(
        self, store: Store, clock: FakeClock
    ) -> None:
        """L1: equal or backward timestamps change nothing."""
        key = await a_conversation(store)

        for number, step in enumerate([0, 0, -10, 5, -1_000_000, 0, 2_000_000], start=1):
            clock.advance(seconds=step)
            await store.commit(key, [noted(number)])

        events = await store.events(key)
        assert [e.seq for e in events] == [1, 2, 3, 4, 5, 6, 7]
        assert [e.data for e in events] == [b"%d" % n for n in range(1, 8)]
        assert [e.at for e in events] == sorted(e.at for e in events)

    async def test_expect_lets_a_commit_pass_only_at_the_end_it_names(self, store: Store) -> None:
        key = await a_conversation(store, says=["one", "two"])

        for wrong in (0, 1, 3, 2**40):
            with pytest.raises(SeqConflict) as caught:
                await store.commit(key, [noted(3)], expect=wrong)
            assert (caught.value.key, caught.value.expected, caught.value.actual) == (key, wrong, 2)
        right = await store.commit(key, [noted(3)], expect=2)

        assert right.seqs == (3,)

    async def test_expect_of_a_commit_that_appends_nothing_is_checked_too(self, store: Store) -> None:
        key = await a_conversation(store, says=["one"])

        with pytest.raises(SeqConflict):
            await store.commit(key, [SetHeader(title="new")], expect=0)

        assert (await store.header(key)).title == ""

    async def test_a_new_conversation_begins_at_zero_for_expect(self, store: Store) -> None:
        with pytest.raises(SeqConflict):
            await store.commit(a_key(), [noted(1)], expect=1, create=SetHeader())
        with pytest.raises(NotFound):
            await store.header(a_key())

        commit = await store.commit(a_key(), [noted(1)], expect=0, create=SetHeader())

        assert (commit.prev_seq, commit.last_seq) == (0, 1)

    async def test_nothing_is_written_to_a_conversation_that_is_not_there(self, store: Store) -> None:
        with pytest.raises(NotFound) as caught:
            await store.commit(a_key(), [said("hello")])

        assert caught.value.key == a_key()
        assert await store.headers("ada") == []
        assert await store.owners() == []

    @pytest.mark.parametrize("read", ["header", "load", "events", "calls", "records", "acquire", "fork"])
    async def test_reading_a_conversation_that_is_not_there_says_so(self, store: Store, read: str) -> None:
        missing = a_key("missing")
        reads: dict[str, Callable[[], Awaitable[object]]] = {
            "header": lambda: store.header(missing),
            "load": lambda: store.load(missing),
            "events": lambda: store.events(missing),
            "calls": lambda: store.calls(missing),
            "records": lambda: store.records(missing, "notes"),
            "acquire": lambda: store.acquire(missing, "holder", ttl=1),
            "fork": lambda: store.fork(missing, "new"),
        }

        with pytest.raises(NotFound):
            await reads[read]()

    async def test_create_makes_a_conversation_in_the_same_commit(
        self, store: Store, clock: FakeClock
    ) -> None:
        commit = await store.commit(
            a_key(), [said("hello"), interrupted("call_1"), put("one")], create=SetHeader(title="a trip")
        )

        header = await store.header(a_key())
        assert commit.seqs == (1,)
        assert (header.title, header.created_at, header.activity) == ("a trip", clock(), clock())
        assert len(await store.calls(a_key())) == 1
        assert len(await store.records(a_key(), "notes")) == 1

    async def test_create_leaves_the_header_of_a_conversation_that_is_there(self, store: Store) -> None:
        key = await a_conversation(store, title="old", agent="guide")
        before = await store.header(key)

        await store.commit(key, [noted(1)], create=SetHeader(title="new", agent="clerk"))

        after = await store.header(key)
        assert (after.title, after.agent, after.version) == ("old", "guide", before.version)
        assert after.last_seq == 1

    async def test_create_of_an_absent_one_refuses_a_conversation_that_is_there(self, store: Store) -> None:
        key = await a_conversation(store, title="old")

        with pytest.raises(AlreadyExists) as caught:
            await store.commit(key, [noted(1)], create=SetHeader(title="new", when=ABSENT))

        assert caught.value.key == key
        assert (await store.header(key)).last_seq == 0

    async def test_create_takes_no_version(self, store: Store) -> None:
        with pytest.raises(InvalidOp):
            await store.commit(a_key(), [], create=SetHeader(when=5))

    async def test_load_gives_all_that_is_needed_to_go_on(self, store: Store) -> None:
        key = await a_conversation(
            store,
            says=["one", "two", "three"],
            calls=[interrupted("open")],
            ops=[put("state", b"1"), put("other", b"2"), put("state", b"3", collection="media")],
        )
        await a_call(store, key, "completed")

        loaded = await store.load(key, records=[("notes", "state"), ("media", "state"), ("notes", "missing")])

        assert loaded.header == await store.header(key)
        assert loaded.events == await store.events(key)
        assert [call.call_id for call in loaded.calls] == ["open"]
        assert {name: record.data for name, record in loaded.records.items()} == {
            ("notes", "state"): b"1",
            ("media", "state"): b"3",
        }

    @pytest.mark.parametrize(("tail", "read"), [(1, [1, 2, 3]), (2, [2, 3]), (3, [3]), (4, []), (99, [])])
    async def test_load_reads_the_log_from_its_tail_on(
        self, store: Store, tail: int, read: list[int]
    ) -> None:
        key = await a_conversation(store, says=["one", "two", "three"], ops=[SetHeader(tail=tail)])

        loaded = await store.load(key)

        assert [e.seq for e in loaded.events] == read
        assert loaded.header.tail == tail
        assert len(await store.events(key)) == 3

    async def test_load_has_open_calls_in_the_order_they_were_opened(self, store: Store) -> None:
        key = await a_conversation(store)
        for status in ("detached", "failed", "interrupted", "cancelled", "pending", "executing"):
            await a_call(store, key, status)

        loaded = await store.load(key)

        assert [call.status for call in loaded.calls] == ["detached", "interrupted", "pending", "executing"]
