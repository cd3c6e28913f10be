"""Many processes use one SQLite file, and some of them die."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.clock import SECOND, system_clock
from holdfast.store import Append, SetHeader, connect
from holdfast.store.sqlite import schema
from holdfast.testing.build import said

from .children import KEY, Child

PROCESSES = 12
ROUNDS = 5

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@contextlib.contextmanager
def children(count: int, function: str, *arguments: object) -> Iterator[list[Child]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Child(function, *arguments)) for _ in range(count)]


async def in_thread(child: Child) -> str:
    return await asyncio.to_thread(child.hear)


async def test_any_number_of_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """L8, L3"""
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(ROUNDS)]

    with children(PROCESSES, "open_and_commit", *urls) as together:
        for child in together:
            child.hear()
        for _ in urls:
            for child in together:
                child.tell()
            for child in together:
                child.hear()
        codes = [child.end() for child in together]

    assert codes == [0] * PROCESSES
    for url in urls:
        async with connect(url) as store:
            events = await store.events(KEY)
        assert [event.seq for event in events] == list(range(1, 5 * PROCESSES + 1))
        assert sorted(event.data for event in events) == sorted([b"%d" % n for n in range(5)] * PROCESSES)


async def test_a_watcher_wakes_up_when_another_process_commits(url: str) -> None:
    async with connect(url) as store:
        await store.commit(KEY, [], create=SetHeader())
        with Child("commit_when_told", url, "hello") as child:
            await in_thread(child)
            async with store.watch([KEY]) as of_one, store.watch() as of_all, asyncio.timeout(10):
                child.tell()

                assert (await anext(of_one)).key == KEY
                assert (await anext(of_all)).key in (None, KEY)


async def test_search_finds_what_another_process_just_committed(url: str) -> None:
    async with connect(url) as store:
        with Child("commit_when_told", url, "albatross") as child:
            await in_thread(child)
            for expected in ([1], [1, 2]):
                child.tell()
                await in_thread(child)

                hits = await store.search(KEY.owner, "albatross")

                assert sorted(hit.seq for hit in hits) == expected


async def test_a_crash_between_a_commit_and_its_indexing_leaves_nothing_out_of_search(
    path: Path, url: str
) -> None:
    with Child("commit_and_die", url, "albatross") as child:
        code = child.end()
    with contextlib.closing(sqlite3.connect(path)) as raw:
        indexed = raw.execute("SELECT count(*) FROM texts_docsize").fetchone()[0]

    async with connect(url) as store:
        hits = await store.search(KEY.owner, "albatross")

    assert code == -signal.SIGKILL
    assert indexed == 0
    assert [hit.seq for hit in hits] == [1]


async def test_what_a_crashed_delete_left_is_removed_at_the_next_open(path: Path, url: str) -> None:
    async with connect(url) as store:
        await store.commit(KEY, [said(f"indexed {n}") for n in range(1500)], create=SetHeader())
        await store.settle()
        await store.commit(KEY, [said(f"not yet {n}") for n in range(1500)])

    with Child("delete_and_die", url, 3) as child:
        code = child.end()
    after_crash = rows(path)
    async with connect(url) as store:
        found = await store.search(KEY.owner, "indexed")
    after_open = rows(path)

    assert code == -signal.SIGKILL
    assert 0 < after_crash["events"] < 3000
    assert found == []
    assert set(after_open.values()) == {0}


async def test_no_byte_remains_of_an_owner_whose_delete_crashed_in_another_process(
    path: Path, url: str
) -> None:
    async with connect(url) as store:
        await store.commit(KEY, [said(f"albatross {n}") for n in range(3000)], create=SetHeader())

        with Child("delete_and_die", url, 3) as child:
            await asyncio.to_thread(child.end)
        after_crash = rows(path)
        await store.erase(KEY.owner)
        await store.scrub()
        after_scrub = rows(path)

    assert 0 < after_crash["events"] < 3000
    assert set(after_scrub.values()) == {0}
    assert b"albatross" not in (content(path) or b"")


async def test_what_a_crashed_fork_left_is_removed_once_nobody_can_be_working_on_it(
    path: Path, url: str
) -> None:
    async with connect(url) as store:
        await store.commit(
            KEY, [Append("notice", b"%d" % n, id=f"{n}") for n in range(3000)], create=SetHeader()
        )
    before = rows(path)

    with Child("fork_and_die", url, 3) as child:
        code = child.end()
    after_crash = rows(path)
    async with connect(url):
        pass
    soon_after = rows(path)
    async with connect(url, clock=lambda: system_clock() + 3600 * SECOND) as store:
        source = await store.events(KEY)
    later = rows(path)

    assert code == -signal.SIGKILL
    assert after_crash["conversations"] == 2
    assert 3000 < after_crash["events"] < 6000
    assert soon_after == after_crash
    assert later == before
    assert len(source) == 3000


async def test_processes_that_migrate_at_once_run_each_script_once(
    tmp_path: Path, path: Path, url: str
) -> None:
    """L17"""
    async with connect(url) as store:
        await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())
    (tmp_path / "two.sql").write_text("CREATE TABLE ran (script INTEGER);\nINSERT INTO ran VALUES (2);\n")
    (tmp_path / "three.sql").write_text("INSERT INTO ran VALUES (3);\n")

    with children(6, "migrate_when_told", url, tmp_path / "two.sql", tmp_path / "three.sql") as together:
        for child in together:
            child.hear()
        for child in together:
            child.tell()
        codes = [child.end() for child in together]
    with contextlib.closing(sqlite3.connect(path)) as raw:
        ran = raw.execute("SELECT script FROM ran ORDER BY script").fetchall()
        version = raw.execute("PRAGMA user_version").fetchone()[0]
        events = raw.execute("SELECT count(*) FROM events").fetchone()[0]

    assert codes == [0] * 6
    assert ran == [(2,), (3,)]
    assert version == len(schema.migrations()) + 2
    assert events == 1


async def test_a_store_says_so_when_it_is_used_after_a_fork_and_goes_on_in_the_parent(url: str) -> None:
    with Child("use_after_fork", url) as child:
        in_child, in_parent = child.hear(), child.hear()
        code = child.end()

    assert in_child.startswith("StoreError")
    assert "forked" in in_child
    assert in_parent == "2"
    assert code == 0


async def test_when_no_file_can_grow_commits_fail_and_what_was_acknowledged_stays(url: str) -> None:
    with Child("write_until_full", url, 300_000) as child:
        error, acknowledged = child.hear().split()
        async with connect(url) as store:
            while_full = await store.events(KEY)
        child.tell()
        last_seq = int(child.hear())
        code = child.end()

    assert code == 0
    assert error in ("StoreFull", "StoreUnavailable")
    assert len(while_full) == int(acknowledged) > 10
    assert last_seq == int(acknowledged) + 1


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("file", "folder", "outcome"),
    [
        pytest.param(0o666, 0o777, "committed", id="all is writable"),
        pytest.param(0o444, 0o777, "StoreUnavailable", id="file is read-only"),
        pytest.param(0o444, 0o555, "StoreUnavailable", id="all is read-only"),
        pytest.param(None, 0o555, "StoreUnavailable", id="no file and a read-only folder"),
    ],
)
async def test_what_may_not_be_written_gets_a_clear_error_and_is_left_alone(
    shared_folder: Path, file: int | None, folder: int, outcome: str
) -> None:
    path = shared_folder / "a.db"
    url = f"sqlite:///{path}"
    if file is not None:
        async with connect(url) as store:
            await store.commit(KEY, [Append("notice", b"0")], create=SetHeader())
        permit(path, file)
    before = content(path)
    permit(shared_folder, folder)

    with Child("commit_as_nobody", url) as child:
        heard = child.hear()

    assert heard == outcome
    assert (content(path) == before) is (outcome != "committed")


def permit(path: Path, mode: int) -> None:
    path.chmod(mode)


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def rows(path: Path) -> dict[str, int]:
    """How many rows the file has, by table."""
    tables = ("conversations", "profiles", "events", "event_ids", "texts_docsize")
    with contextlib.closing(sqlite3.connect(path)) as raw:
        return {table: raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
