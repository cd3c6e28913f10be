"""
Writers that are stopped in the middle, for as long as it takes to collect what they know.

Every number that a collection frees can be written again. These tests stop a process before or after
a request, let another one go on, merge and collect, and look for what was acknowledged and is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import NotFound, StoreUnavailable
from holdfast.model.records import Commit
from holdfast.store import Append, ConversationKey, Op, Redact, SetHeader, Store, Tag
from holdfast.store.objects.opening import TRUST
from holdfast.store.objects.roots import RETAIN
from holdfast.testing import FakeClock
from holdfast.testing.build import noted

from .objects_taps import Tap, TappedStore, contents, make_older, names

KEY = ConversationKey("ada", "c-1")
LONG = 2 * TRUST + 5
LATE = Append("notice", b'"late"')

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def slow(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TappedStore]:
    """The store of the process that is stopped."""
    async with TappedStore(tmp_path / "store", clock=clock) as store:
        yield store


@pytest.fixture
async def quick(slow: TappedStore, clock: FakeClock) -> AsyncIterator[TappedStore]:
    """The store of the process that goes on."""
    async with TappedStore(slow.folder, clock=clock) as store:
        yield store


@contextlib.asynccontextmanager
async def stopped(tap: Tap, verb: str, pattern: str, *, after: bool = False) -> AsyncIterator[None]:
    """The next such request waits until the end of the block, which begins when it has come."""
    stop = tap.stop(verb, pattern, after=after)
    await asyncio.wait_for(stop.reached.wait(), 20)
    yield
    stop.go.set()


def committing(
    store: Store, *ops: Op, token: str | None = None, create: SetHeader | None = None
) -> asyncio.Task[Commit]:
    return asyncio.create_task(store.commit(KEY, ops or (LATE,), token=token, create=create))


async def append(store: Store, count: int) -> None:
    for number in range(count):
        await store.commit(KEY, [noted(number)])


def pass_time(store: TappedStore, clock: FakeClock, seconds: float = LONG) -> None:
    """Let time pass, for the processes and for the objects."""
    clock.advance(seconds)
    make_older(store.folder, seconds)


async def collect(store: TappedStore, clock: FakeClock) -> None:
    """Merge what is there, wait until it may be collected, and collect it."""
    await append(store, 33)
    await store.settle()
    pass_time(store, clock)
    await append(store, 33)
    await store.scrub()


async def data(store: Store) -> list[bytes]:
    events = await store.events(KEY)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.data for event in events]


async def test_a_commit_whose_number_was_collected_before_it_was_written_is_not_lost(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow)
    async with stopped(slow.tap, "create", "/log/0+2$"):
        await collect(quick, clock)
        assert names(quick.folder, "/log/0+2$") == []
    commit = await late

    found = await data(quick)
    assert found == await data(slow)
    assert len(found) == 1 + 66 + 1
    assert found.index(b'"late"') + 1 == commit.seqs[0]
    await slow.upkeep()
    assert names(quick.folder, "/log/0+2$") == []


async def test_a_writer_that_trusts_what_it_saw_for_ever_does_lose_it(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """Otherwise the test above would prove nothing."""
    await slow.commit(KEY, [noted(0)], create=SetHeader())
    slow._heads.trust = float("inf")

    late = committing(slow)
    async with stopped(slow.tap, "create", "/log/0+2$"):
        await collect(quick, clock)
    await late

    assert b'"late"' not in await data(quick)


async def test_a_commit_that_was_written_long_before_its_answer_came_is_there_once(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """L5: it is part of a checkpoint by now."""
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow)
    async with stopped(slow.tap, "create", "/log/0+2$", after=True):
        await collect(quick, clock)
    commit = await late

    assert commit.seqs == (2,)
    found = await data(quick)
    assert found[1] == b'"late"'
    assert (len(found), found.count(b'"late"')) == (1 + 66 + 1, 1)


async def test_a_commit_that_nobody_can_tell_of_any_more_is_repeated_with_its_token(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """L5"""
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow, token="t-1")
    async with stopped(slow.tap, "create", "/log/0+2$", after=True):
        for _ in range(3):
            await collect(quick, clock)
    with pytest.raises(StoreUnavailable, match="token"):
        await late
    again = await slow.commit(KEY, [LATE], token="t-1")

    assert again.seqs == (2,)
    assert (await data(quick)).count(b'"late"') == 1


async def test_a_writer_that_was_stopped_for_a_moment_needs_no_second_look(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow)
    async with stopped(slow.tap, "create", "/log/0+2$"):
        await append(quick, 3)
        pass_time(quick, clock, TRUST - 1)
    with slow.tap.counted() as requests:
        await late

    assert await data(quick) == [b"0", b"0", b"1", b"2", b'"late"']
    assert not any(request.startswith("list") for request in requests)


async def test_a_number_stays_taken_whatever_time_its_entry_bears(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """An upload that took long bears the time at which it began; what was redacted is removed at once."""
    await slow.commit(KEY, [noted(0)], create=SetHeader())
    await append(quick, 1)
    make_older(quick.folder, LONG)

    await quick.commit(KEY, [Redact(1)])
    await quick.settle()
    commit = await slow.commit(KEY, [LATE])

    assert commit.seqs == (3,)
    assert await data(quick) == await data(slow)
    assert (await data(quick))[2] == LATE.data


async def test_a_late_commit_to_a_deleted_conversation_is_not_found_and_brings_nothing_back(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """L16: at once, while its numbers are still taken."""
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow, LATE, Tag("topic", "late"))
    async with stopped(slow.tap, "create", "/log/0+2$"):
        await quick.delete(KEY)
    with pytest.raises(NotFound):
        await late

    await slow.upkeep()
    assert await quick.find("ada", "topic", "late") == []
    assert b"late" not in contents(quick.folder)
    assert names(quick.folder, "^o/|^due/|^wake/") == []


async def test_a_commit_that_comes_when_nothing_of_its_conversation_is_left_leaves_nothing(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """L16: when every number is free again."""
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow, LATE, Tag("topic", "late"))
    async with stopped(slow.tap, "create", "/log/0+2$"):
        await quick.delete(KEY)
        for _ in range(3):
            pass_time(quick, clock, RETAIN + 1)
            await quick.scrub()
        assert names(quick.folder) == []
    with pytest.raises(NotFound):
        await late

    await slow.upkeep()
    assert names(quick.folder) == []
    with pytest.raises(NotFound):
        await quick.header(KEY)


async def test_a_process_that_dies_after_such_a_write_leaves_a_ghost_that_is_swept(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """L16"""
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow)
    async with stopped(slow.tap, "create", "/log/0+2$"):
        await quick.delete(KEY)
        for _ in range(3):
            pass_time(quick, clock, RETAIN + 1)
            await quick.scrub()
        dead = slow.tap.stop("create", "/log/0+2$", after=True)
    await dead.reached.wait()
    assert len(names(quick.folder)) == 1

    with pytest.raises(NotFound):
        await quick.header(KEY)
    created = await quick.commit(KEY, [noted(7)], create=SetHeader(when=0))
    for _ in range(3):
        pass_time(quick, clock, RETAIN + 1)
        await quick.scrub()
    assert created.seqs == (1,)
    assert b"late" not in contents(quick.folder)
    assert await data(quick) == [b"7"]
    dead.go.set()
    assert (await late).seqs == (2,)


async def test_of_two_that_make_a_conversation_the_one_that_was_stopped_joins_the_other(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    late = committing(slow, create=SetHeader(title="slow"))
    async with stopped(slow.tap, "create", "/current/"):
        await quick.commit(KEY, [noted(0)], create=SetHeader(title="quick"))
        await collect(quick, clock)
    commit = await late

    assert commit.seqs == (68,)
    assert (await slow.header(KEY)).title == (await quick.header(KEY)).title == "quick"
    assert len(await data(quick)) == 68


async def test_a_root_that_comes_when_its_time_is_over_does_not_hide_the_conversation_that_lives(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    """It was to follow an incarnation of which nothing is left; another one began meanwhile."""
    await slow.commit(KEY, [noted(1)], create=SetHeader())
    await quick.delete(KEY)

    late = committing(slow, create=SetHeader(title="slow"))
    async with stopped(slow.tap, "create", "/current/"):
        for _ in range(3):
            pass_time(quick, clock, RETAIN + 1)
            await quick.scrub()
        await quick.commit(KEY, [noted(2)], create=SetHeader(title="quick", when=0))
    commit = await late

    assert commit.seqs == (2,)
    assert (await quick.header(KEY)).title == "quick"
    assert await data(quick) == await data(slow) == [b"2", b'"late"']
    for _ in range(3):
        pass_time(quick, clock, RETAIN + 1)
        await quick.scrub()
    assert await data(quick) == [b"2", b'"late"']
    assert len(names(quick.folder, "/current/")) == 1


async def test_a_merge_that_was_stopped_does_not_bring_its_old_view_back(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    await slow.commit(KEY, [noted(0)], create=SetHeader())
    await append(slow, 20)

    merging = asyncio.create_task(slow.settle())
    async with stopped(slow.tap, "create", "/ckpt/"):
        await collect(quick, clock)
        await collect(quick, clock)
    await merging

    assert len(await data(quick)) == len(await data(slow)) == 21 + 4 * 33
    async with TappedStore(quick.folder, clock=clock) as fresh:
        assert len(await data(fresh)) == 21 + 4 * 33


async def test_a_sweep_spares_the_segments_of_a_merge_that_was_stopped(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    await slow.commit(KEY, [noted(0)], create=SetHeader())
    await append(slow, 20)

    merging = asyncio.create_task(slow.settle())
    async with stopped(slow.tap, "create", "/ckpt/"):
        quick._merger.entries = 1000
        pass_time(quick, clock, RETAIN + 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("holdfast.store.objects.sweeping.SETTLED", 1000)
            await quick.scrub()
    await merging

    assert len(names(quick.folder, "/ckpt/")) == 1
    async with TappedStore(quick.folder, clock=clock) as fresh:
        assert len(await data(fresh)) == 21


async def test_an_index_entry_that_was_swept_before_its_commit_is_written_again(
    slow: TappedStore, quick: TappedStore, clock: FakeClock
) -> None:
    await slow.commit(KEY, [noted(0)], create=SetHeader())

    late = committing(slow, Tag("topic", "late"))
    async with stopped(slow.tap, "create", "/log/0+2$"):
        pass_time(quick, clock)
        await quick.scrub()
        assert names(quick.folder, "/tags/") == []
    await late

    assert [found.key for found in await quick.find("ada", "topic", "late")] == [KEY]


async def test_a_clock_that_is_set_back_does_not_make_a_writer_trust_for_longer(
    slow: TappedStore, quick: TappedStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even in a machine that slept, where only one clock goes on."""
    await slow.commit(KEY, [noted(0)], create=SetHeader())
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    monkeypatch.setattr("time.clock_gettime", lambda _: now)

    late = committing(slow)
    async with stopped(slow.tap, "create", "/log/0+2$"):
        await collect(quick, clock)
        clock.advance(-100 * LONG)
        now += LONG
    await late

    assert (await data(quick)).count(b'"late"') == 1
