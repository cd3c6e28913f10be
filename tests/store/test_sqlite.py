"""What the SQLite store does with its one writer: groups, slices, cancelled and failing commits, no space."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreClosed, StoreError, StoreFull, StoreUnavailable
from holdfast.model.records import Commit
from holdfast.store import Append, ConversationKey, PutRecord, SetHeader, Store, connect
from holdfast.store.sqlite import SQLiteStore
from holdfast.testing import vfs
from holdfast.testing.crash_child import Plan, plans
from holdfast.testing.ledger import Answer, examine

KEY = ConversationKey("ada", "c-1")
CONVERSATIONS = ("c-1", "c-2", "c-3")

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def noted(number: int) -> Append:
    return Append("notice", b"%d" % number)


async def numbers(store: Store, key: ConversationKey = KEY) -> list[bytes]:
    """The data of a conversation's events; their seqs have no gap."""
    events = await store.events(key)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.data for event in events]


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_commits_cancelled_in_the_middle_of_a_group_are_there_whole_or_not_at_all(
    url: str, turns: int
) -> None:
    """L20"""
    answers: dict[str, Answer] = {}
    async with connect(url) as store:
        for round in range(5):
            together = [next(plans(f"r{round}t{n}", CONVERSATIONS)) for n in range(64)]
            tasks = [asyncio.create_task(plan.commit(store, KEY.owner)) for plan in together]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            answers |= answered(together, outcomes)
            assert all(isinstance(outcome, Commit) for outcome in outcomes[1::2])

            at_once = await examine(store, KEY.owner, CONVERSATIONS, answers)
            again = await asyncio.gather(*(plan.commit(store, KEY.owner) for plan in together))
            answers |= answered(together, again)
            repeated = await examine(store, KEY.owner, CONVERSATIONS, answers)

            assert at_once.problems == []
            assert repeated.problems == []
        assert len(repeated.whole) == 5 * 64


def answered(together: list[Plan], outcomes: list[Any]) -> dict[str, Answer]:
    pairs = zip(together, outcomes, strict=True)
    return {plan.marker: Answer(plan, outcome) for plan, outcome in pairs if isinstance(outcome, Commit)}


async def test_closing_waits_for_what_was_accepted(url: str) -> None:
    store = await connect(url).open()
    await store.commit(KEY, [], create=SetHeader())

    tasks = [asyncio.create_task(store.commit(KEY, [noted(n)])) for n in range(500)]
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await store.close()
    done = [task.done() for task in tasks]

    assert all(done)
    assert [task.result().last_seq for task in tasks] == list(range(1, 501))
    async with connect(url) as store:
        assert await numbers(store) == [b"%d" % n for n in range(500)]


LONG: dict[str, Callable[[Store], Coroutine[Any, Any, object]]] = {
    "delete": lambda store: store.delete(KEY),
    "erase": lambda store: store.erase(KEY.owner),
    "fork": lambda store: store.fork(KEY, "forked"),
    "settle": lambda store: store.settle(),
    "scrub": lambda store: store.scrub(),
    "search": lambda store: store.search(KEY.owner, "words"),
}


@pytest.mark.parametrize("operation", LONG)
@pytest.mark.parametrize("turns", [1, 20])
async def test_closing_waits_for_what_the_writer_does_in_several_turns(
    url: str, operation: str, turns: int
) -> None:
    store = await connect(url).open()
    await store.commit(KEY, [Append("notice", b'"words"', text="words")] * 3500, create=SetHeader())

    task = asyncio.create_task(LONG[operation](store))
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await store.close()

        await task


@pytest.mark.parametrize("turns", [1, 2, 5, 20])
async def test_a_delete_that_is_cancelled_happens_or_not_and_leaves_nothing_behind(
    path: Path, url: str, turns: int
) -> None:
    """L20"""
    async with connect(url) as store:
        await store.commit(KEY, [noted(n) for n in range(3500)], create=SetHeader())

        task = asyncio.create_task(store.delete(KEY))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    [(named, nameless)] = run(path, "SELECT count(owner), count(*) - count(owner) FROM conversations")
    assert named in (0, 1)
    assert nameless == 0
    assert run(path, "SELECT count(*) FROM events") == [(3500 if named else 0,)]


async def test_a_closed_store_says_so_and_can_be_opened_again(url: str) -> None:
    store = connect(url)
    with pytest.raises(StoreClosed):
        await store.header(KEY)
    async with store:
        await store.commit(KEY, [noted(1)], create=SetHeader())
    await store.close()

    with pytest.raises(StoreClosed):
        await store.commit(KEY, [noted(2)])

    async with store:
        await store.commit(KEY, [noted(3)])
        assert await numbers(store) == [b"1", b"3"]


async def test_a_store_of_another_event_loop_says_so(url: str) -> None:
    async with connect(url) as store:
        with pytest.raises(StoreError, match="event loop"):
            await asyncio.to_thread(asyncio.run, store.header(KEY))


async def test_a_commit_that_fails_in_the_middle_of_a_group_does_not_touch_its_neighbours(
    path: Path, url: str
) -> None:
    async with connect(url) as store:
        await store.commit(KEY, [], create=SetHeader())
        trap = "CREATE TRIGGER trap BEFORE INSERT ON records WHEN NEW.key = 'poison' BEGIN SELECT RAISE(ABORT, 'boom'); END"
        run(path, trap)
        commits = [
            store.commit(
                KEY, [noted(n), PutRecord("notes", "poison" if n % 20 == 7 else f"{n}", b""), noted(n)]
            )
            for n in range(64)
        ]

        outcomes = await asyncio.gather(*commits, return_exceptions=True)

        failed = {n for n, outcome in enumerate(outcomes) if isinstance(outcome, StoreUnavailable)}
        stored = [n for n in range(64) if n not in failed]
        assert failed == {7, 27, 47}
        assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Commit)] == stored
        assert await numbers(store) == [b"%d" % n for n in stored for _ in range(2)]
        assert {record.key for record in await store.records(KEY, "notes")} == {f"{n}" for n in stored}


def run(path: Path, statement: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        return raw.execute(statement).fetchall()


class Transactions:
    """Counts the rows that each transaction of the process changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        connect, sizes = sqlite3.connect, self.sizes

        class Counting(sqlite3.Connection):
            before = 0

            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                if statement.startswith("BEGIN"):
                    self.before = self.total_changes
                done = super().execute(statement, *values)
                if statement == "COMMIT":
                    sizes.append(self.total_changes - self.before)
                return done

        monkeypatch.setattr(
            sqlite3, "connect", lambda *args, **kwargs: connect(*args, **kwargs, factory=Counting)
        )


async def test_a_long_conversation_is_deleted_in_slices_and_others_commit_in_between(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = Transactions(monkeypatch)
    other = ConversationKey("ada", "c-2")
    async with connect(url) as store:
        await store.commit(other, [], create=SetHeader())
        await fill(store, 50_000)
        transactions.sizes.clear()

        deleting = asyncio.create_task(store.delete(KEY))
        meanwhile = 0
        while not deleting.done():
            await store.commit(other, [noted(meanwhile)])
            meanwhile += 1

        assert (await deleting).events == 50_000
        assert max(transactions.sizes) <= 1_100
        assert len(transactions.sizes) > 50
        assert meanwhile > 25
        assert len(await numbers(store, other)) == meanwhile


async def test_a_long_conversation_is_forked_in_slices_and_others_commit_in_between(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = Transactions(monkeypatch)
    other = ConversationKey("ada", "c-2")
    async with connect(url) as store:
        await store.commit(other, [], create=SetHeader())
        await fill(store, 20_000)
        transactions.sizes.clear()

        forking = asyncio.create_task(store.fork(KEY, "forked"))
        meanwhile = 0
        while not forking.done():
            await store.commit(other, [noted(meanwhile)])
            meanwhile += 1

        assert (await forking).last_seq == 20_000
        assert max(transactions.sizes) <= 1_100
        assert len(transactions.sizes) > 20
        assert meanwhile > 10


async def fill(store: Store, count: int) -> None:
    await store.commit(KEY, [], create=SetHeader())
    for first in range(0, count, 1000):
        await store.commit(KEY, [noted(n) for n in range(first, first + 1000)])


class Full(vfs.Tap):
    """A disk that can be full: nothing can be written then."""

    full = False

    def write(self, file: object, offset: int, data: bytes, proceed: vfs.ProceedWrite) -> None:
        if self.full:
            raise vfs.Refused(sqlite3.SQLITE_FULL)
        proceed(offset, data)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Full]:
    tap = Full()
    with vfs.tapped(tap, tmp_path):
        yield tap


async def test_a_full_disk_fails_commits_and_loses_nothing_and_is_forgotten_when_there_is_space(
    url: str, disk: Full
) -> None:
    async with connect(url) as store:
        await store.commit(KEY, [noted(0)], create=SetHeader())

        disk.full = True
        alone = await asyncio.gather(store.commit(KEY, [noted(1)]), return_exceptions=True)
        grouped = await asyncio.gather(
            *(store.commit(KEY, [noted(2)]) for _ in range(64)), return_exceptions=True
        )
        read = await numbers(store)
        disk.full = False
        after = await store.commit(KEY, [noted(3)])

        assert {type(outcome) for outcome in [*alone, *grouped]} == {StoreFull}
        assert read == [b"0"]
        assert after.seqs == (2,)
        assert await numbers(store) == [b"0", b"3"]


async def test_a_database_that_may_not_grow_fails_the_commit_that_is_too_much_and_takes_smaller_ones(
    url: str,
) -> None:
    class Small(SQLiteStore):
        def _connect(self) -> sqlite3.Connection:
            connection = super()._connect()
            connection.execute("PRAGMA max_page_count = 100")
            return connection

    async with Small(url) as store:
        await store.commit(KEY, [noted(0)], create=SetHeader())
        with pytest.raises(StoreFull):
            await store.commit(KEY, [Append("notice", b'"%b"' % (b"x" * 400_000))])
        await store.commit(KEY, [noted(1)])

        acknowledged = 2
        with contextlib.suppress(StoreFull):
            while True:
                await store.commit(KEY, [Append("notice", b'"%b"' % (b"x" * 5_000))])
                acknowledged += 1
    async with connect(url) as roomy:
        await roomy.commit(KEY, [Append("notice", b'"%b"' % (b"x" * 400_000))])
        stored = await numbers(roomy)

    assert stored[:2] == [b"0", b"1"]
    assert len(stored) == acknowledged + 1


async def test_a_sync_that_fails_fails_the_commit_and_the_next_one_succeeds(tmp_path: Path, url: str) -> None:
    class Failing(vfs.Tap):
        fails = False

        def sync(self, file: object, proceed: vfs.Proceed) -> None:
            if self.fails:
                raise vfs.Refused(sqlite3.SQLITE_IOERR)
            proceed()

    tap = Failing()
    with vfs.tapped(tap, tmp_path):
        async with connect(url) as store:
            await store.commit(KEY, [noted(0)], create=SetHeader())

            tap.fails = True
            with pytest.raises(StoreUnavailable):
                await store.commit(KEY, [noted(1)], token="once")
            tap.fails = False
            again = await store.commit(KEY, [noted(1)], token="once")

            assert again.seqs == (2,)
            assert await numbers(store) == [b"0", b"1"]
