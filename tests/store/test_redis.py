"""What is particular to the Redis store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.servers import url_of

from holdfast.clock import SECOND
from holdfast.errors import NotFound, StoreError, StoreUnavailable, WeakerThanAsked
from holdfast.store import Append, DropRecords, MoveCall, Redact, SetHeader, Tag, Wake, connect
from holdfast.store.redis import RedisStore
from holdfast.store.redis.reads import Reads
from holdfast.testing import FakeClock
from holdfast.testing.build import a_conversation, a_key, answered, interrupted, noted, put, said

from .children import Child
from .redis_kit import Tuned, behind, keys, raw, until

pytestmark = [pytest.mark.anyio, pytest.mark.server("valkey")]

DAY = 86_400


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.fixture
def url(prefix: str) -> str:
    return f"{url_of('valkey')}?durability=memory&prefix={prefix}&shards=4"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_times_beyond_what_a_double_can_count_are_exact(url: str, clock: FakeClock) -> None:
    """Lua has no integers; the farthest time is ten times farther than 2**53 microseconds."""
    async with connect(url, clock=clock) as store:
        for seconds in (9_000_000_000.000001, 12_345_678_901.000003, 99_999_999_999.0):
            key = await a_conversation(store, f"{seconds}", calls=[interrupted("call", expires_in=seconds)])
            await store.commit(key, [Wake(after=seconds)])
            lease = await store.acquire(key, "holder", ttl=seconds)

            expected = clock() + round(seconds * SECOND)
            header, [call] = await store.header(key), await store.calls(key)
            assert lease is not None
            assert (header.wake_at, call.expires_at, lease.until) == (expected, expected, expected)
            assert header.lease == lease
            await store.commit(key, [answered("call")])
        assert await store.due() == []
        assert await store.claim("other", ttl=1) == []


async def test_a_fence_is_never_behind_the_servers_clock_so_that_a_failover_can_not_repeat_one(
    url: str,
) -> None:
    """L34: a replica that takes over may have lost the last ones."""
    async with connect(url) as store:
        key = await a_conversation(store)
        first = await store.acquire(key, "left", ttl=60)
        assert first is not None
        assert isinstance(store, RedisStore)
        place = store._keys.place(key)
        await store._nodes.call(place.shard, b"HDEL", place.head, b"fence", b"holder", b"until")

        second = await store.acquire(key, "right", ttl=60)

        assert second is not None
        assert second.fence > first.fence


async def test_a_deleted_conversation_leaves_one_number_and_nothing_else(url: str, prefix: str) -> None:
    async with connect(url) as store:
        key = await a_conversation(
            store,
            says=["hello"],
            calls=[interrupted("call", expires_in=60)],
            ops=[put("a"), Tag("a", "b"), Wake()],
        )
        await store.acquire(key, "holder", ttl=10)

        await store.delete(key)

        assert [name.partition(b"}")[2] for name in keys(behind(url), prefix)] == [b"numbers"]


async def test_idle_conversations_are_deleted_where_the_url_says_so(url: str, clock: FakeClock) -> None:
    async with connect(url, clock=clock) as store:
        for id in ("idle", "works", "leased", "active"):
            await a_conversation(store, id, f"owner of {id}", ops=[noted(1), Tag("a", "b")])
        await store.commit(a_key("works", "owner of works"), [Wake(after=100 * DAY)])
        await store.acquire(a_key("leased", "owner of leased"), "holder", ttl=100 * DAY)
        clock.advance(seconds=3 * DAY)
        await store.commit(a_key("active", "owner of active"), [noted(2)])
        clock.advance(seconds=1)

    async with connect(url, clock=clock) as store:
        kept_without = await store.owners()
    async with connect(f"{url}&ttl=3", clock=clock) as store:
        assert isinstance(store, RedisStore)
        await store._delete_idle(3 * DAY)
        kept = await store.owners()
        with pytest.raises(NotFound):
            await store.header(a_key("idle", "owner of idle"))
        assert await store.find("owner of idle", "a", "b") == []

    assert len(kept_without) == 4
    assert kept == ["owner of active", "owner of leased", "owner of works"]


async def test_the_sweeper_runs_by_itself(url: str, clock: FakeClock) -> None:
    async with connect(url, clock=clock) as store:
        await a_conversation(store)
    clock.advance(seconds=DAY)

    async with connect(f"{url}&ttl=0.5", clock=clock) as store, asyncio.timeout(30):
        while True:
            if not await store.owners():
                break


async def test_a_log_that_is_longer_than_a_page_is_read_whole_and_loaded_from_one_moment(url: str) -> None:
    async with connect(url) as store, connect(url) as other:
        key = await a_conversation(store)
        for start in range(0, 5_000, 1_000):
            await store.commit(key, [noted(n) for n in range(start, start + 1_000)])
        large = b'"%b"' % (b"x" * 1_000_000)
        for _ in range(9):
            await store.commit(key, [Append("large", large), said("hello")])
        writing = asyncio.gather(*(other.commit(key, [noted(n)]) for n in range(50)))

        loaded = await store.load(key)

        await writing
        events = await store.events(key)
        assert [event.seq for event in events] == list(range(1, 5_069))
        assert loaded.events == events[: loaded.header.last_seq]
        assert await store.events(key, after=10, before=4_000) == events[10:3_999]
        assert await store.events(key, limit=3_000) == events[-3_000:]
        assert len(await store.search("ada", "hello")) == 9


async def test_many_calls_and_large_records_are_read_whole(url: str) -> None:
    async with connect(url) as store:
        key = await a_conversation(store, calls=[interrupted(f"call {n}") for n in range(1_200)])
        await store.commit(
            key, [MoveCall(f"call {n}", "completed", frozenset(("interrupted",))) for n in range(0, 1_200, 2)]
        )
        for number in range(12):
            await store.commit(key, [put(f"{number:02}", b"%d" % number * 500_000)])

        calls, records = await store.calls(key), await store.records(key, "notes")

        assert [call.call_id for call in calls] == [f"call {n}" for n in range(1_200)]
        assert len(await store.calls(key, status=["completed"])) == 600
        assert [record.data for record in records] == [b"%d" % n * 500_000 for n in range(12)]
        assert await store.records(key, "notes", reverse=True) == records[::-1]
        assert (
            await store.records(key, "notes", keys=[f"{n:02}" for n in range(20)], limit=11) == records[:11]
        )


async def test_search_stops_when_nothing_newer_can_be_found(
    url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(url, clock=clock) as store:
        for number in range(30):
            await a_conversation(store, f"c-{number:02}", says=[f"hello {number}"])
            clock.advance(seconds=1)
        looked_at: list[str] = []
        page = Reads.newest

        async def counted(self: Reads, key, *args):  # type: ignore[no-untyped-def]
            looked_at.append(key.id)
            return await page(self, key, *args)

        monkeypatch.setattr(Reads, "newest", counted)

        hits = await store.search("ada", "hello", limit=2)

        assert [hit.key.id for hit in hits] == ["c-29", "c-28"]
        assert len(looked_at) < 10
        assert len(await store.search("ada", "hello", limit=100)) == 30


async def test_a_fork_copies_records_as_they_are_when_it_becomes_visible(url: str) -> None:
    async with connect(url) as store:
        assert isinstance(store, RedisStore)
        key = await a_conversation(
            store, says=["one"], ops=[put("a", b"old"), put("b", b"old"), put("c", b"old")]
        )
        copy = store._whole.copy

        async def copied_then_changed(*args):  # type: ignore[no-untyped-def]
            await copy(*args)
            await store.commit(key, [put("a", b"new"), put("d", b"new")])

        store._whole.copy = copied_then_changed  # type: ignore[method-assign]

        await store.fork(key, "fork", collections=["notes"])

        records = await store.records(a_key("fork"), "notes")
        assert [(r.key, r.data) for r in records] == [
            ("a", b"new"),
            ("b", b"old"),
            ("c", b"old"),
            ("d", b"new"),
        ]
        assert len({record.revision for record in records}) == 1


async def test_what_is_redacted_or_dropped_during_a_fork_is_not_in_it(url: str) -> None:
    async with connect(url) as store:
        assert isinstance(store, RedisStore)
        key = await a_conversation(store, says=["a secret", "two"], ops=[put("a", b"secret"), put("b")])
        copy, rounds = store._whole.copy, 0

        async def copied_then_cut(*args):  # type: ignore[no-untyped-def]
            nonlocal rounds
            rounds += 1
            await copy(*args)
            if rounds == 1:
                await store.commit(key, [Redact(1), DropRecords("notes", "a")])

        store._whole.copy = copied_then_cut  # type: ignore[method-assign]

        await store.fork(key, "fork", collections=["notes"])

        assert rounds == 2
        assert [event.type for event in await store.events(a_key("fork"))] == ["redacted", "message"]
        assert [record.key for record in await store.records(a_key("fork"), "notes")] == ["b"]
        assert await store.search("ada", "secret") == []


async def test_a_store_says_so_when_it_is_used_after_a_fork_and_goes_on_in_the_parent(url: str) -> None:
    with Child("use_after_fork", url) as child:
        in_child, in_parent = child.hear(), child.hear()
        code = child.end()

    assert in_child.startswith("StoreError")
    assert "another event loop or process" in in_child
    assert in_parent == "2"
    assert code == 0


async def test_a_store_says_so_when_it_is_used_in_another_loop(url: str) -> None:
    async with connect(url) as store:
        key = await a_conversation(store)

        with pytest.raises(StoreError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(store.header(key)))

        assert (await store.header(key)).last_seq == 0


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Tuned, Tuned]]:
    """A server and its replica."""
    first = Tuned("--repl-diskless-sync-delay", "0", durable=True).start()
    second = Tuned("--replicaof", f"127.0.0.1 {first.port}", durable=True).start()
    yield first, second
    second.stop()
    first.stop()


async def test_with_replicas_a_commit_returns_when_they_have_it(
    pair: tuple[Tuned, Tuned], prefix: str
) -> None:
    first, second = pair
    url = f"{first.url}?prefix={prefix}&durability=replicated&replicas=1"
    store = connect(f"{url}&timeout=2")
    async with asyncio.timeout(30):
        while True:
            try:
                await store.open()
                break
            except WeakerThanAsked:
                await asyncio.sleep(0.02)
    async with store:
        key = await a_conversation(store)
        for number in range(20):
            await store.commit(key, [noted(number)])
            replica = raw(second)
            [head] = [name for name in keys(replica, prefix) if b"head:" in name]
            assert replica.hget(head, "seq") == b"%d" % (number + 1)
        assert (store.limits.durability, store.limits.scrub) == ("replicated", False)

        second.pause()
        try:
            with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
                await store.commit(key, [noted(20)], token="t-1")
            loaded = await store.load(key)
        finally:
            second.resume()
        again = await until(lambda: store.commit(key, [noted(20)], token="t-1"))

        assert loaded.header.last_seq == 21
        assert again.seqs == (21,)


async def test_a_conversation_without_events_is_deleted_forked_and_made_again(url: str) -> None:
    async with connect(url) as store:
        key = await a_conversation(store)

        header = await store.fork(key, "fork")
        await store.delete(key)
        await store.commit(key, [], create=SetHeader(when=0))

        assert header.last_seq == 0
        assert await store.events(a_key("fork")) == []
