"""What a file may be before the SQLite store is opened on it, and what it is afterwards."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    NotAStore,
    SchemaOutdated,
    SchemaTooNew,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from holdfast.store import Append, ConversationKey, SetHeader, connect
from holdfast.store.sqlite import SQLiteStore, schema
from holdfast.testing import vfs

KEY = ConversationKey("ada", "c-1")

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
async def a_store(url: str) -> SQLiteStore:
    """A store with one event, closed."""
    store = SQLiteStore(url)
    async with store:
        await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())
    return store


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def run(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Run statements as any program could; the rows of the last one."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
        rows: list[tuple[object, ...]] = []
        for statement in statements:
            rows = raw.execute(statement).fetchall()
        return rows


def described(path: Path) -> list[tuple[object, ...]]:
    columns = (
        "SELECT m.name, c.* FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c ORDER BY m.name, c.cid"
    )
    return [
        *run(path, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"),
        *run(path, columns),
        *run(path, "PRAGMA application_id"),
        *run(path, "PRAGMA user_version"),
    ]


def newer(monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
    """Let these scripts follow the ones that there are."""
    now = schema.migrations()
    stamped = [schema.stamped(script, number) for number, script in enumerate(scripts, len(now) + 1)]
    monkeypatch.setattr(schema, "migrations", lambda: [*now, *stamped])


async def test_a_fresh_schema_equals_one_migrated_from_any_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17"""
    newer(
        monkeypatch,
        "ALTER TABLE profiles ADD COLUMN colour TEXT;",
        "CREATE INDEX colours ON profiles (colour);",
    )
    scripts = schema.migrations()
    async with SQLiteStore(f"sqlite:///{tmp_path}/fresh.db"):
        pass

    for version in range(1, len(scripts)):
        old = tmp_path / f"{version}.db"
        with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as connection:
            schema.upgrade(connection, "", scripts[:version])
        assert described(old) != described(tmp_path / "fresh.db")
        await SQLiteStore(f"sqlite:///{old}").migrate()

        assert described(old) == described(tmp_path / "fresh.db")


async def test_an_older_file_is_refused_with_the_command_that_helps_and_unchanged(
    a_store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17"""
    newer(monkeypatch, "CREATE TABLE more (n INTEGER);")
    before = contents(tmp_path)

    with pytest.raises(SchemaOutdated, match=f"holdfast migrate {a_store.url}") as caught:
        await a_store.open()

    assert (caught.value.found, caught.value.wanted) == (1, 2)
    assert contents(tmp_path) == before


async def test_a_migrated_file_opens_with_all_that_was_in_it(
    a_store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer(monkeypatch, "CREATE TABLE more (n INTEGER);")

    await a_store.migrate()
    await a_store.migrate()

    async with a_store:
        assert [event.data for event in await a_store.events(KEY)] == [b"1"]


async def test_a_script_that_fails_halfway_leaves_the_old_version(
    a_store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17"""
    before = described(path)
    with monkeypatch.context() as patch:
        newer(
            patch,
            "CREATE TABLE two (n INTEGER);",
            "CREATE TABLE three (n INTEGER);\nINSERT INTO nowhere VALUES (1);",
        )
        with pytest.raises(StoreError, match="nowhere"):
            await a_store.migrate()

    assert described(path) == before
    async with a_store:
        assert len(await a_store.events(KEY)) == 1


async def test_a_file_of_a_newer_version_is_refused_and_unchanged(
    a_store: SQLiteStore, path: Path, tmp_path: Path
) -> None:
    run(path, "PRAGMA user_version = 99")
    before = contents(tmp_path)

    for attempt in (a_store.open, a_store.migrate):
        with pytest.raises(SchemaTooNew, match="upgrade holdfast") as caught:
            await attempt()
        assert (caught.value.found, caught.value.wanted) == (99, len(schema.migrations()))

    assert contents(tmp_path) == before


@pytest.mark.parametrize("junk", [b"hello", b"not a database, " * 500], ids=["short", "long"])
async def test_a_file_that_is_no_database_is_refused_and_unchanged(
    junk: bytes, path: Path, url: str, tmp_path: Path
) -> None:
    put(path, junk)

    for attempt in (SQLiteStore(url).open, SQLiteStore(url).migrate):
        with pytest.raises(NotAStore):
            await attempt()

    assert contents(tmp_path) == {"a.db": junk}


@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_a_database_of_another_application_is_refused_and_unchanged(
    mode: str, path: Path, url: str, tmp_path: Path
) -> None:
    run(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE theirs (n)", "PRAGMA user_version = 1")
    before = contents(tmp_path)

    for attempt in (SQLiteStore(url).open, SQLiteStore(url).migrate):
        with pytest.raises(NotAStore, match="another application"):
            await attempt()

    assert contents(tmp_path) == before
    assert run(path, "PRAGMA journal_mode") == [(mode,)]


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_file_that_another_process_is_just_making_is_not_of_another_application(
    nth: int, path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L8: the other one is done just before the n-th statement that looks at the file."""
    connect, looks = sqlite3.connect, 0

    class Overtaken(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            nonlocal looks
            looks += not self.in_transaction
            if looks == nth and not self.in_transaction:
                with contextlib.closing(connect(path, isolation_level=None)) as other:
                    schema.upgrade(other, url, schema.migrations())
            return super().execute(statement, *values)

    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **kwargs: connect(*args, **kwargs, factory=Overtaken)
    )
    schema.prepare(path, url, migrate=False)
    monkeypatch.undo()

    assert looks >= nth
    assert run(path, "SELECT count(*) FROM conversations") == [(0,)]


async def test_an_empty_file_becomes_a_store(path: Path, url: str) -> None:
    put(path, b"")

    async with connect(url) as store:
        await store.commit(KEY, [], create=SetHeader())

    assert run(path, "SELECT count(*) FROM conversations") == [(1,)]


async def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="directory"):
        await connect(f"sqlite:///{tmp_path}").open()

    assert contents(tmp_path) == {}


async def test_a_missing_directory_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=str(tmp_path / "missing")):
        await connect(f"sqlite:///{tmp_path}/missing/a.db").open()

    assert contents(tmp_path) == {}


async def test_no_space_while_the_file_is_made_is_said_and_forgotten_once_there_is_some(
    tmp_path: Path, url: str
) -> None:
    class Full(vfs.Tap):
        room = 0

        def write(self, file: object, offset: int, data: bytes, proceed: vfs.ProceedWrite) -> None:
            self.room -= 1
            if self.room < 0:
                raise vfs.Refused(sqlite3.SQLITE_FULL)
            proceed(offset, data)

    tap = Full()
    with vfs.tapped(tap, tmp_path):
        for room in (0, 1, 5, 30):
            tap.room = room
            with pytest.raises(StoreFull):
                await connect(url).open()
    async with connect(url) as store:
        done = await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())

    assert done.last_seq == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///a.db?durability=weird", "durability is disk or os, not 'weird'"),
        ("sqlite:///a.db?durability=", "durability is disk or os"),
        ("sqlite:///a.db?colour=red", "unknown parameter 'colour'"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://a.db", "names no file"),
    ],
)
def test_a_url_that_can_never_work_is_refused_before_anything_is_made(
    url: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidInput, match=says) as caught:
        connect(url)

    assert isinstance(caught.value, HoldfastError)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///a.db", "a.db"),
        ("sqlite:///with%20space%3F.db", "with space?.db"),
        ("sqlite:///b.db?durability=os", "b.db"),
        ("sqlite:////{folder}/c.db", "c.db"),
        ("sqlite:///%C3%BC.db", "ü.db"),
    ],
)
async def test_a_url_names_a_file_relative_or_absolute(
    url: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async with connect(url.format(folder=str(tmp_path).lstrip("/"))) as store:
        await store.commit(KEY, [], create=SetHeader())

    assert list(contents(tmp_path)) == [name]
