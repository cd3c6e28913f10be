"""Races: many writers on the same thing at once, from several instances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.errors import (
    AlreadyExists,
    NotFound,
    SeqConflict,
    StaleCall,
    StaleHeader,
    StaleRecord,
)
from holdfast.model.records import Commit
from holdfast.store import ABSENT, Op, Rest, SetHeader, Store, Tag, Wake
from holdfast.testing.build import (
    a_conversation,
    a_key,
    answered,
    expired,
    interrupted,
    noted,
    put,
    said,
)
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic, race
from holdfast.testing.kit import StoreKit

WRITERS = 32


class RaceRules(Topic):
    @pytest.fixture
    async def stores(self, kit: StoreKit, clock: FakeClock) -> AsyncIterator[list[Store]]:
        """As many stores as writers; every fourth is an instance of its own."""
        async with kit.several(4, clock=clock) as stores:
            yield [stores[number % 4] for number in range(WRITERS)]

    @pytest.mark.parametrize("instances", [1, 4])
    async def test_concurrent_appenders_leave_no_gap_and_no_duplicate(
        self, stores: list[Store], instances: int
    ) -> None:
        """L3"""
        key = await a_conversation(stores[0])

        async def append(number: int) -> Commit:
            return await stores[number % instances].commit(key, [noted(number), noted(number)])

        commits = await asyncio.gather(*(append(number) for number in range(64)))

        events = await stores[1].events(key)
        assert [event.seq for event in events] == list(range(1, 129))
        for number, commit in enumerate(commits):
            first, second = commit.seqs
            assert (second, commit.prev_seq, commit.last_seq) == (first + 1, first - 1, second)
            assert events[first - 1].data == events[second - 1].data == b"%d" % number
        assert (await stores[2].header(key)).last_seq == 128

    async def test_concurrent_appenders_to_many_conversations_keep_to_their_own(
        self, stores: list[Store]
    ) -> None:
        """L3"""
        keys = [await a_conversation(stores[0], f"c-{n}") for n in range(8)]

        await asyncio.gather(
            *(stores[n % 32].commit(keys[n % 8], [noted(n % 8)], token=f"{n}") for n in range(128))
        )

        for number, key in enumerate(keys):
            events = await stores[0].events(key)
            assert [event.seq for event in events] == list(range(1, 17))
            assert {event.data for event in events} == {b"%d" % number}

    async def test_of_writers_that_expect_the_same_end_exactly_one_wins(self, stores: list[Store]) -> None:
        """L3: a typed conflict for the losers."""
        key = await a_conversation(stores[0])

        for end in range(5):
            won, lost = await race(
                *(store.commit(key, [noted(n)], expect=end) for n, store in enumerate(stores)),
                loses=SeqConflict,
            )

            assert (len(won), len(lost)) == (1, WRITERS - 1)
            assert [(error.expected, error.actual) for error in lost if isinstance(error, SeqConflict)] == [
                (end, end + 1)
            ] * (WRITERS - 1)
        assert [event.seq for event in await stores[0].events(key)] == [1, 2, 3, 4, 5]

    async def test_writers_that_read_again_after_a_conflict_all_get_through(
        self, stores: list[Store]
    ) -> None:
        """L3: no lost event."""
        key = await a_conversation(stores[0])

        async def append(store: Store, number: int) -> None:
            while True:
                try:
                    end = (await store.header(key)).last_seq
                    await store.commit(key, [noted(number)], expect=end)
                    return
                except SeqConflict:
                    continue

        await asyncio.gather(*(append(store, number) for number, store in enumerate(stores[:12])))

        assert sorted(int(event.data) for event in await stores[0].events(key)) == list(range(12))

    async def test_of_racing_resolvers_exactly_one_wins(self, stores: list[Store]) -> None:
        """L25: a double click, two browsers; log and row agree."""
        key = await a_conversation(stores[0], calls=[interrupted("call_1")])

        won, lost = await race(
            *(
                store.commit(key, [answered("call_1", by=b"%d" % n), noted(n)])
                for n, store in enumerate(stores)
            ),
            loses=StaleCall,
        )

        assert (len(won), len(lost)) == (1, WRITERS - 1)
        [call], [event] = await stores[0].calls(key), await stores[0].events(key)
        assert call.status == "completed"
        assert call.data == event.data

    async def test_an_answer_and_an_expiry_that_race_have_one_winner(
        self, stores: list[Store], clock: FakeClock
    ) -> None:
        """L25: also if the time is up in the middle of it."""
        for attempt in range(10):
            key = await a_conversation(
                stores[0], f"c-{attempt}", calls=[interrupted("call_1", expires_in=10)]
            )
            clock.advance(seconds=9)

            async def pass_time() -> None:
                await asyncio.sleep(0)
                clock.advance(seconds=1)

            timer = asyncio.create_task(pass_time())
            won, _ = await race(
                *(
                    store.commit(key, [answered("call_1", by=b"a") if n % 2 else expired("call_1"), noted(n)])
                    for n, store in enumerate(stores[:8])
                ),
                loses=StaleCall,
            )
            await timer
            late, _ = await race(stores[1].commit(key, [expired("call_1"), noted(99)]), loses=StaleCall)

            [call], events = await stores[0].calls(key), await stores[0].events(key)
            assert len(won) + len(late) == len(events) == 1
            assert call.status == ("completed" if int(events[0].data) % 2 and not late else "expired")

    async def test_of_racing_creators_exactly_one_creates(self, stores: list[Store]) -> None:
        won, lost = await race(
            *(
                store.commit(a_key(), [noted(n)], create=SetHeader(title=f"{n}", when=ABSENT))
                for n, store in enumerate(stores)
            ),
            loses=AlreadyExists,
        )

        assert (len(won), len(lost)) == (1, WRITERS - 1)
        [event] = await stores[0].events(a_key())
        assert (await stores[0].header(a_key())).title.encode() == event.data

    async def test_racing_writers_that_may_create_all_append(self, stores: list[Store]) -> None:
        """L3"""
        commits = await asyncio.gather(
            *(store.commit(a_key(), [noted(n)], create=SetHeader()) for n, store in enumerate(stores))
        )

        assert sorted(seq for commit in commits for seq in commit.seqs) == list(range(1, WRITERS + 1))
        assert len(await stores[0].headers("ada")) == 1

    async def test_a_token_that_races_with_itself_is_one_commit(self, stores: list[Store]) -> None:
        """L5: a retry that overtakes the first attempt."""
        key = await a_conversation(stores[0])

        commits = await asyncio.gather(
            *(store.commit(key, [noted(1), put("a")], token="t-1") for store in stores)
        )
        created = await asyncio.gather(
            *(
                store.commit(a_key("new"), [noted(1)], token="t-1", create=SetHeader(when=ABSENT))
                for store in stores
            )
        )

        assert commits == [commits[0]] * WRITERS
        assert created == [created[0]] * WRITERS
        assert len(await stores[0].events(key)) == len(await stores[0].events(a_key("new"))) == 1

    async def test_a_delivery_that_races_with_itself_is_one_event(self, stores: list[Store]) -> None:
        """L4"""
        key = await a_conversation(stores[0])

        commits = await asyncio.gather(
            *(store.commit(key, [noted(n), said("hello", id="d-1")]) for n, store in enumerate(stores))
        )

        ids = [event.id for event in await stores[0].events(key)]
        assert ids.count("d-1") == 1
        assert {commit.seqs[1] for commit in commits} == {ids.index("d-1") + 1}
        assert len(ids) == WRITERS + 1

    async def test_counting_by_revision_loses_no_count(self, stores: list[Store]) -> None:
        """L3"""
        key = await a_conversation(stores[0], ops=[put("count", b"0")])

        async def count_up(store: Store) -> None:
            for _ in range(4):
                while True:
                    [record] = await store.records(key, "notes")
                    try:
                        await store.commit(
                            key, [put("count", b"%d" % (int(record.data) + 1), when=record.revision)]
                        )
                        break
                    except StaleRecord:
                        continue

        await asyncio.gather(*map(count_up, stores[:8]))

        assert [record.data for record in await stores[0].records(key, "notes")] == [b"32"]

    async def test_of_racing_writes_of_one_revision_or_version_exactly_one_wins(
        self, stores: list[Store]
    ) -> None:
        key = await a_conversation(stores[0])
        version = (await stores[0].header(key)).version

        records, _ = await race(
            *(store.commit(key, [put("a", b"%d" % n, when=ABSENT)]) for n, store in enumerate(stores)),
            loses=StaleRecord,
        )
        titles, _ = await race(
            *(store.commit(key, [SetHeader(title=f"{n}", when=version)]) for n, store in enumerate(stores)),
            loses=StaleHeader,
        )

        assert (len(records), len(titles)) == (1, 1)

    async def test_commits_that_fail_do_not_touch_those_beside_them(self, stores: list[Store]) -> None:
        """Of a group that a store writes together, each member stands alone."""
        keys = [await a_conversation(stores[0], f"c-{n}", calls=[interrupted("call_1")]) for n in range(4)]

        async def write(number: int) -> Commit:
            ops: list[Op] = [noted(number), put(f"{number:02}", b"%d" % number), Tag("n", f"{number}")]
            if number % 3 == 0:
                ops.append(answered("unknown"))
            return await stores[0].commit(keys[number % 4], ops, expect=99 if number % 5 == 0 else None)

        outcomes = await asyncio.gather(*(write(n) for n in range(120)), return_exceptions=True)

        good = [n for n in range(120) if n % 3 and n % 5]
        assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Commit)] == good
        assert all(isinstance(o, (Commit, StaleCall, SeqConflict)) for o in outcomes)
        for index, key in enumerate(keys):
            mine = [n for n in good if n % 4 == index]
            events = await stores[1].events(key)
            assert [event.seq for event in events] == list(range(1, len(mine) + 1))
            assert sorted(int(event.data) for event in events) == mine
            assert sorted(int(record.data) for record in await stores[1].records(key, "notes")) == mine
        for number in range(120):
            assert len(await stores[1].find("ada", "n", f"{number}")) == (number in good)

    async def test_of_racing_holders_exactly_one_gets_the_lease(self, stores: list[Store]) -> None:
        """L34"""
        key = await a_conversation(stores[0])

        leases = await asyncio.gather(
            *(store.acquire(key, f"h-{n}", ttl=10) for n, store in enumerate(stores))
        )

        [lease] = [lease for lease in leases if lease is not None]
        assert (await stores[0].header(key)).lease == lease

    async def test_racing_claims_never_give_one_conversation_twice(self, stores: list[Store]) -> None:
        """L34"""
        ids = [f"c-{n:02}" for n in range(20)]
        for id in ids:
            await a_conversation(stores[0], id, ops=[Wake()])

        claims = await asyncio.gather(
            *(store.claim(f"h-{n}", limit=3, ttl=10) for n, store in enumerate(stores[:12]))
        )

        assert sorted(lease.key.id for claim in claims for lease in claim) == ids
        for claim in claims:
            assert len(claim) <= 3

    async def test_input_that_really_races_the_end_of_a_run_is_never_lost(self, stores: list[Store]) -> None:
        """L35"""
        sender, holder, *_ = stores[:2]

        async def end_the_run(id: str) -> int:
            lease = await holder.acquire(a_key(id), "holder", ttl=10)
            assert lease is not None
            while True:
                read = (await holder.load(a_key(id))).header.last_seq
                try:
                    await holder.commit(a_key(id), [Rest(release=True)], fence=lease.fence, expect=read)
                    return read
                except SeqConflict:
                    continue

        for attempt in range(20):
            key = await a_conversation(sender, f"c-{attempt}", ops=[said("first"), Wake()])
            read, _ = await asyncio.gather(end_the_run(key.id), sender.commit(key, [said("more"), Wake()]))

            header = await sender.header(key)
            assert (header.last_seq, header.lease) == (2, None)
            assert read == 2 or header.wake_at is not None

    async def test_writers_that_race_a_delete_bring_nothing_back(self, stores: list[Store]) -> None:
        """L16"""
        for attempt in range(5):
            key = await a_conversation(stores[0], f"c-{attempt}", says=["hello"])
            writes = [store.commit(key, [noted(n), Tag("topic", "food")]) for n, store in enumerate(stores)]

            deleting = asyncio.gather(stores[3].delete(key))
            await race(*writes, loses=NotFound)
            await deleting
            await stores[1].settle()

            with pytest.raises(NotFound):
                await stores[1].header(key)
            assert await stores[1].find("ada", "topic", "food") == []
            assert await stores[1].search("ada", "hello") == []

    async def test_a_conversation_that_is_deleted_and_made_anew_in_a_race_is_whole(
        self, stores: list[Store]
    ) -> None:
        """L16"""

        async def write(store: Store, number: int) -> None:
            await store.commit(a_key(), [noted(number), said("hello")], create=SetHeader())

        await asyncio.gather(
            *(store.delete(a_key()) if n % 4 == 3 else write(store, n) for n, store in enumerate(stores))
        )

        await write(stores[0], 99)
        header, events = await stores[1].header(a_key()), await stores[1].events(a_key())
        assert [event.seq for event in events] == list(range(1, header.last_seq + 1))
        await stores[1].settle()
        hits = await stores[1].search("ada", "hello", limit=100)
        assert {hit.seq for hit in hits} == {event.seq for event in events if event.type == "message"}

    async def test_of_racing_forks_to_one_id_exactly_one_is_made(self, stores: list[Store]) -> None:
        key = await a_conversation(stores[0], says=["one", "two"])

        won, lost = await race(
            *(store.fork(key, "fork", ops=[noted(n)]) for n, store in enumerate(stores)), loses=AlreadyExists
        )

        assert (len(won), len(lost)) == (1, WRITERS - 1)
        assert len(await stores[0].events(a_key("fork"))) == 3

    async def test_a_load_is_from_one_moment(self, stores: list[Store]) -> None:
        key = await a_conversation(stores[0], ops=[put("count", b"0")])
        done = asyncio.Event()

        async def write(store: Store) -> None:
            for number in range(40):
                await store.commit(
                    key, [noted(number), put("count", b"%d" % (number + 1)), interrupted(f"{number}")]
                )
                await asyncio.sleep(0)
            done.set()

        async def read(store: Store) -> None:
            while not done.is_set():
                loaded = await store.load(key, records=[("notes", "count")])
                assert len(loaded.events) == loaded.header.last_seq == len(loaded.calls)
                assert int(loaded.records["notes", "count"].data) == loaded.header.last_seq
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(write(stores[0]))
            for store in stores[:4]:
                group.create_task(read(store))
