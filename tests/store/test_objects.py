"""What the objects store does with its objects: one for a commit, few for a long log, none for what is gone."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import NotFound
from holdfast.model.records import Erased
from holdfast.store import (
    Append,
    ConversationKey,
    DropRecords,
    Op,
    OpenCall,
    PutRecord,
    Redact,
    SetHeader,
    Store,
    Tag,
    Untag,
    Wake,
    connect,
)
from holdfast.store.objects import segments
from holdfast.store.objects.merging import ENTRIES, Merger
from holdfast.store.objects.names import folder
from holdfast.store.objects.opening import TRUST
from holdfast.store.objects.roots import RETAIN
from holdfast.testing import FakeClock, StoreKit
from holdfast.testing.build import a_rich_conversation, noted, put, said, seen
from holdfast.testing.machine import compare

from .objects_taps import TappedStore, contents, make_older, names

KEY = ConversationKey("ada", "c-1")

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TappedStore]:
    async with TappedStore(tmp_path / "store", clock=clock) as store:
        yield store


@pytest.fixture
async def other(store: TappedStore, clock: FakeClock) -> AsyncIterator[TappedStore]:
    async with TappedStore(store.folder, clock=clock) as other:
        yield other


async def fill(store: Store, commits: int, *, events: int = 1, key: ConversationKey = KEY) -> None:
    for number in range(commits):
        await store.commit(key, [noted(number)] * events, create=SetHeader())


def verbs(requests: list[str]) -> Counter[str]:
    return Counter(request.partition(" ")[0] for request in requests)


# What it costs


async def test_an_append_of_a_lone_writer_is_one_request(store: TappedStore) -> None:
    await store.commit(KEY, [noted(0)], create=SetHeader())

    with store.tap.counted() as requests:
        for number in range(10):
            await store.commit(KEY, [noted(number)], token=f"t-{number}")

    assert verbs(requests) == {"create": 10}


async def test_a_process_that_was_quiet_for_long_looks_once(store: TappedStore, clock: FakeClock) -> None:
    await fill(store, 3)
    clock.advance(TRUST + 1)

    with store.tap.counted() as requests:
        await fill(store, 2)

    assert verbs(requests) == {"list": 1, "create": 2}


async def test_a_read_of_what_is_known_asks_for_news_only(store: TappedStore) -> None:
    await fill(store, 3)

    with store.tap.counted() as requests:
        await store.load(KEY)

    assert verbs(requests) == {"get": 1}


async def test_ten_thousand_events_are_read_with_few_requests(store: TappedStore, clock: FakeClock) -> None:
    await fill(store, 2_500, events=4)
    await store.settle()

    async with TappedStore(store.folder, clock=clock) as cold:
        with cold.tap.counted() as requests:
            events = await cold.events(KEY)

    assert [event.seq for event in events] == list(range(1, 10_001))
    assert len(requests) <= 20, requests


async def test_a_turn_costs_the_same_in_a_long_conversation_as_in_a_short_one(
    store: TappedStore, clock: FakeClock
) -> None:
    """L9: after merging."""
    costs = []
    for length in (100, 5_000):
        for start in range(0, length, 100):
            await store.commit(KEY, [noted(start)] * 100, create=SetHeader(), token=f"{length} {start}")
        await store.commit(KEY, [SetHeader(tail=(await store.header(KEY)).last_seq - 10)])
        await store.settle()
        async with TappedStore(store.folder, clock=clock) as cold:
            with cold.tap.counted() as requests:
                await cold.load(KEY)
                await cold.commit(KEY, [noted(1), OpenCall(f"call {length}", "tool")], token=f"turn {length}")
                await cold.commit(KEY, [put("state")])
            costs.append(verbs(requests))

    short, long = costs
    assert long["create"] == short["create"]
    assert long["list"] == short["list"]
    assert long["get"] <= short["get"] + 6


async def test_small_commits_are_merged_into_few_objects(store: TappedStore, clock: FakeClock) -> None:
    for _ in range(6):
        await fill(store, 2 * ENTRIES)
        await store.settle()
        clock.advance(2 * TRUST + 5)
        make_older(store.folder, 2 * TRUST + 5)
    await store.scrub()

    assert len(names(store.folder, "/log/")) < 2 * ENTRIES
    assert len(names(store.folder, "/seg/")) <= 8
    assert len(names(store.folder, "/ckpt/")) <= 2
    assert len(await store.events(KEY)) == 12 * ENTRIES


async def test_a_conversation_is_the_same_before_and_after_merging(
    store: TappedStore, other: TappedStore, clock: FakeClock
) -> None:
    await a_rich_conversation(store)
    for number in range(40):
        await store.commit(
            KEY, [said(f"hello {number}", id=f"d-{number}"), put(f"{number:02}")], token=f"{number}"
        )
    await store.commit(KEY, [Redact(3), DropRecords("notes", prefix="1"), Untag("topic", "food")])
    before = await seen(store, "ada")

    await store.settle()
    await store.scrub()

    assert await seen(store, "ada") == await seen(other, "ada") == before
    again = await other.commit(KEY, [said("hello 7", id="d-7"), put("07")], token="7")
    assert again.seqs == (12,)
    assert (await other.commit(KEY, [said("hello", id="d-39")])).seqs == (44,)


def test_random_operations_have_the_same_outcome_where_everything_is_merged_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where segments have many blocks, and rows are looked up one by one."""
    monkeypatch.setattr(Merger, "entries", 2)
    monkeypatch.setattr("holdfast.store.objects.merging.SETTLED", 1)
    monkeypatch.setattr(segments, "BLOCK", 100)
    monkeypatch.setattr(segments, "WHOLE", 150)

    compare(StoreKit(f"file://{tmp_path}/store?durability=os"), examples=6)


# What is gone


async def test_a_delete_leaves_no_byte_at_once_and_no_object_in_the_end(
    store: TappedStore, clock: FakeClock
) -> None:
    await a_rich_conversation(store)
    await fill(store, 2 * ENTRIES)
    await store.settle()

    await store.delete(KEY)

    await store.upkeep()
    left = [path for path in names(store.folder) if (store.folder / path).stat().st_size]
    assert [path for path in left if "/current/" not in path] == []
    assert names(store.folder, "^o/|^due/|^wake/") == []
    for _ in range(2):
        make_older(store.folder, RETAIN + 1)
        await store.scrub()
    assert names(store.folder) == []


async def test_an_erase_leaves_no_object(store: TappedStore) -> None:
    for number in range(5):
        await a_rich_conversation(store, f"c-{number}")
    await a_rich_conversation(store, "c-1", "eve")
    kept = await seen(store, "eve")

    assert (await store.erase("ada")).conversations == 5
    for _ in range(2):
        make_older(store.folder, RETAIN + 1)
        await store.scrub()

    assert await seen(store, "eve") == kept
    await store.erase("eve")
    for _ in range(2):
        make_older(store.folder, RETAIN + 1)
        await store.scrub()
    assert names(store.folder) == []
    assert [path for name in "co" for path in store.folder.glob(f"{name}/*")] == []


async def test_what_was_redacted_is_gone_without_a_scrub(store: TappedStore, other: TappedStore) -> None:
    await store.commit(KEY, [said("a zebraquark thing"), said("two")], create=SetHeader())
    await fill(store, ENTRIES)
    await store.settle()
    assert contents(store.folder).count(b"zebraquark") > 1

    await other.commit(KEY, [Redact(1)])
    await other.settle()

    assert b"zebraquark" not in contents(store.folder)
    for reader in (store, other):
        assert [event.type for event in await reader.events(KEY, before=3)] == ["redacted", "message"]
        assert await reader.search("ada", "zebraquark") == []
        assert len(await reader.events(KEY)) == 2 + ENTRIES


async def test_a_fork_of_what_is_redacted_meanwhile_does_not_have_it(
    store: TappedStore, other: TappedStore
) -> None:
    await store.commit(KEY, [said("a secret"), said("two")], create=SetHeader())

    stop = store.tap.stop("create", "/current/")
    forking = asyncio.create_task(store.fork(KEY, "fork"))
    await stop.reached.wait()
    await other.commit(KEY, [Redact(1)])
    stop.go.set()
    header = await forking

    events = await other.events(ConversationKey("ada", "fork"))
    assert [event.type for event in events] == ["redacted", "message"]
    assert header.last_seq == 2
    await store.settle()
    assert b"a secret" not in contents(store.folder)


async def test_a_long_conversation_is_forked_in_pieces(
    store: TappedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.objects.whole._EVENTS_A_SLICE", 100)
    monkeypatch.setattr("holdfast.store.objects.whole.LARGEST", 4_000)
    await store.commit(KEY, [said(f"hello {n}", id=f"d-{n}") for n in range(450)], create=SetHeader())

    await store.fork(KEY, "fork", at=420)

    fork = ConversationKey("ada", "fork")
    assert len(names(store.folder, "/seg/")) > 3
    assert await store.events(fork) == (await store.events(KEY))[:420]
    assert (await store.commit(fork, [said("again", id="d-7")])).seqs == (8,)
    assert len(await store.search("ada", "hello 419")) == 2


async def test_a_delete_that_was_interrupted_is_finished_by_a_sweep(
    store: TappedStore, other: TappedStore
) -> None:
    await a_rich_conversation(store)
    await fill(store, ENTRIES)
    stop = store.tap.stop("put", "/closed$")
    deleting = asyncio.create_task(store.delete(KEY))
    await stop.reached.wait()

    with pytest.raises(NotFound):
        await other.header(KEY)
    assert await other.delete(KEY) == Erased()
    await other.scrub()

    assert list(names(store.folder, "/seg/|/ckpt/|^o/|^wake|^due")) == []
    await other.commit(KEY, [noted(1)], create=SetHeader(when=0))
    stop.go.set()
    assert (await deleting).conversations == 1
    assert [event.data for event in await other.events(KEY)] == [b"1"]


async def test_a_delete_of_what_was_merged_anew_meanwhile_counts_and_removes_everything(
    store: TappedStore, other: TappedStore, clock: FakeClock
) -> None:
    """The segments that this process knows of are gone, although the conversation did not change."""
    ops: list[Op] = [put("a"), put("b"), Tag("a", "b"), said("hello"), *map(noted, range(10))]
    await other.commit(KEY, ops, create=SetHeader())
    await other.commit(KEY, [DropRecords("notes", key="a")])
    await other._merger.merge(other._heads.slot(folder(KEY)))
    await store.header(KEY)

    await other.scrub()
    erased = await store.delete(KEY)

    assert erased == Erased(1, 11, 0, 1, 1)
    assert names(store.folder, "/seg/|/ckpt/|^o/|^wake|^due") == []


async def test_any_number_may_sweep_while_conversations_are_deleted(
    store: TappedStore, other: TappedStore
) -> None:
    keys = [ConversationKey("ada", f"c-{number}") for number in range(6)]
    for key in keys:
        await store.commit(key, [put("a"), put("b"), Tag("a", "b"), said("hello")], create=SetHeader())
        await store.commit(key, [DropRecords("notes", key="a")])

    await asyncio.gather(store.scrub(), other.scrub(), *(store.delete(key) for key in keys), other.scrub())
    await store.scrub()

    assert names(store.folder, "/seg/|/ckpt/|^o/|^wake|^due") == []


# The index


async def test_the_index_is_written_again_where_it_is_missing(store: TappedStore, clock: FakeClock) -> None:
    await a_rich_conversation(store)
    await fill(store, ENTRIES)
    await store.settle()
    await store.commit(KEY, [said("hello fresh"), Wake(after=5)])
    clock.advance(100)
    before = await seen(store, "ada")
    assert before.due

    for path in names(store.folder, "^o/|^due/|^wake/"):
        (store.folder / path).unlink()
    lost = await seen(store, "ada")
    await store.scrub()

    assert (lost.by_activity, lost.found, lost.hits, lost.due) != (
        before.by_activity, before.found, before.hits, before.due,
    )  # fmt: skip
    async with TappedStore(store.folder, clock=clock) as fresh:
        assert await seen(fresh, "ada") == before
        assert len(await fresh.claim("holder", ttl=10)) == 1


async def test_entries_that_point_to_nothing_are_passed_over_and_swept(
    store: TappedStore, other: TappedStore
) -> None:
    """A process died between the index and its commit."""
    await store.commit(KEY, [noted(0)], create=SetHeader())
    store.tap.lost = lambda verb, path: verb == "put"
    for key in (KEY, ConversationKey("ada", "c-2"), ConversationKey("eve", "c-1")):
        with pytest.raises(Exception, match="lost"):
            await store.commit(key, [Tag("a", "b"), Wake()], create=SetHeader())
    store.tap.lost = lambda verb, path: False

    assert await other.owners() == ["ada"]
    assert await other.find("ada", "a", "b") == []
    assert await other.claim("holder", ttl=10) == []
    assert [header.key for header in await other.headers("ada")] == [KEY]
    assert len(names(store.folder, "/tags/|^wake/")) == 6
    await other.scrub()
    assert len(names(store.folder, "/tags/|^wake/")) == 6
    make_older(store.folder, 2 * TRUST + 1)
    await other.scrub()
    assert names(store.folder, "/tags/|^wake/") == []
    assert [header.key for header in await other.headers("ada")] == [KEY]


async def test_an_entry_of_the_index_goes_when_its_reason_goes(store: TappedStore) -> None:
    await store.commit(
        KEY,
        [OpenCall("call", "tool", "interrupted", expires_in=10), Tag("a", "b"), Tag("a", "b", "ref"), Wake()],
        create=SetHeader(),
    )
    assert len(names(store.folder, "/open/|/tags/|^wake/|^due/")) == 4

    lease = await store.acquire(KEY, "holder", ttl=10)
    assert lease is not None
    await store.commit(KEY, [Untag("a", "b", "ref")])
    assert len(names(store.folder, "/tags/")) == 1
    await store.commit(KEY, [Untag("a", "b")])
    await store.upkeep()

    assert names(store.folder, "/tags/") == []


async def test_lists_are_in_order_although_the_index_is_not_written_each_time(
    store: TappedStore, other: TappedStore, clock: FakeClock
) -> None:
    """L11: an entry is renewed when it is a minute behind."""
    ids = [f"c-{number}" for number in range(8)]
    for id in ids:
        await store.commit(ConversationKey("ada", id), [noted(1)], create=SetHeader())
    orders = itertools.islice(itertools.permutations(ids), 0, 5_000, 500)
    for step, order in enumerate(orders):
        for id in order:
            clock.advance(0.5 + step)
            await (store if step % 2 else other).commit(ConversationKey("ada", id), [noted(1)])

        assert [header.key.id for header in await store.headers("ada")] == [*reversed(order)]
        pages = [await other.headers("ada", limit=3)]
        while page := await other.headers(
            "ada", limit=3, before=(pages[-1][-1].activity, pages[-1][-1].key.id)
        ):
            pages.append(page)
        assert [header.key.id for page in pages for header in page] == [*reversed(order)]


async def test_what_search_remembers_stays_within_its_limit(
    store: TappedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where many searches read the same list at once."""
    monkeypatch.setattr("holdfast.store.objects.searching._WORDS", 60)
    for number in range(4):
        key = ConversationKey("ada", f"c-{number}")
        texts = " ".join(f"word{number}x{n}" for n in range(10))
        await store.commit(key, [said(texts)] * 3, create=SetHeader())
        await store._merger.merge(store._heads.slot(folder(key)))

    for _ in range(3):
        found = await asyncio.gather(*(store.search("ada", f"word{n % 4}x3") for n in range(16)))
        assert [len(hits) for hits in found] == [3] * 16

    kept = store._searches._lists
    assert 0 < store._searches._kept == sum(1 + len(words) for words in kept.values()) <= 60


# Who writes with others


async def test_a_writer_that_others_leave_no_room_gets_in(store: TappedStore, other: TappedStore) -> None:
    """Who loses needs two requests for the next try, who wins only one: it would lose for ever."""
    await store.commit(KEY, [noted(0)], create=SetHeader())
    done = asyncio.Event()

    async def stream() -> int:
        count = 0
        while not done.is_set() and count < 5_000:
            await store.commit(KEY, [noted(1)])
            count += 1
        return count

    streaming = asyncio.create_task(stream())
    # Each look at the winner takes so long that it is ahead again.
    original = other._chain._bucket.get

    async def slowly(path: str) -> bytes | None:
        found = await original(path)
        await asyncio.sleep(0.01)
        return found

    other._chain._bucket.get = slowly  # type: ignore[method-assign]
    for number in range(3):
        await other.commit(KEY, [noted(100 + number)])
    done.set()
    count = await streaming

    assert count < 5_000
    found = [event.data for event in await store.events(KEY)]
    assert [found.count(b"%d" % (100 + number)) for number in range(3)] == [1, 1, 1]


async def test_many_conversations_are_written_at_once(store: TappedStore) -> None:
    keys = [ConversationKey("ada", f"c-{number}") for number in range(50)]

    await asyncio.gather(*(fill(store, 4, key=key) for key in keys))

    assert len(await store.headers("ada", limit=100)) == 50
    assert {header.last_seq for header in await store.headers("ada", limit=100)} == {4}


async def test_numbers_fit_into_63_bits(store: TappedStore) -> None:
    await store.commit(KEY, [PutRecord("notes", "a", b"")], create=SetHeader())
    lease = await store.acquire(KEY, "holder", ttl=1)
    header = await store.header(KEY)

    assert lease is not None
    assert max(header.revision, header.version, lease.fence) < 2**63


async def test_a_directory_is_a_store_for_several_that_open_it(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    async with connect(url) as store, connect(url) as other:
        await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())

        assert len(await other.events(KEY)) == 1
        assert store.limits.durability == "disk"
        assert store.limits.index_lag == 0
