"""The MySQL store's tables: made on demand, versioned, refused where they do not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from tests.servers import url_of

from holdfast.errors import (
    InvalidInput,
    NotAStore,
    NotFound,
    SchemaOutdated,
    SchemaTooNew,
    StoreError,
    WeakerThanAsked,
)
from holdfast.ids import ConversationKey
from holdfast.store import Append, Op, PutRecord, SetHeader, Tag, connect
from holdfast.store.mysql.schema import Schema
from holdfast.testing.build import a_conversation, a_key, a_rich_conversation, noted

from .mysql import TABLES, drop, new_prefix, prefix_of, raw
from .racers import race

pytestmark = [pytest.mark.anyio, pytest.mark.server("mariadb")]


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Tables that do not exist yet, and are gone afterwards."""
    url = new_prefix()
    yield url
    await drop(url)


async def dumped(url: str) -> list[str]:
    """The tables as the server writes them, without their prefix."""
    tables = (*TABLES, "migrations")
    found = [(await raw(url, f"SHOW CREATE TABLE {prefix_of(url)}{table}"))[0][1] for table in tables]
    return [sql.replace(prefix_of(url), "") for sql in found]


async def test_a_server_without_the_tables_says_exactly_what_to_run(url: str) -> None:
    with pytest.raises(SchemaOutdated) as caught:
        await connect(url).open()

    assert (caught.value.found, caught.value.wanted) == (0, 1)
    assert f"run `holdfast migrate {url}`" in str(caught.value)


async def test_the_printed_scripts_make_the_same_tables_as_a_migration(url: str) -> None:
    """L17"""
    by_hand = new_prefix()
    for script in await connect(by_hand).pending_migrations():
        await raw(by_hand, script)
    await connect(url).migrate()

    assert await dumped(by_hand) == await dumped(url)
    assert await connect(by_hand).pending_migrations() == []
    async with connect(by_hand) as store:
        await a_conversation(store)
    await drop(by_hand)


async def test_fresh_tables_equal_those_that_were_migrated_step_by_step(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17"""
    fresh, now = new_prefix(), Schema.scripts
    later = {
        "0002_two": "ALTER TABLE {p}events ADD COLUMN two BIGINT;\n",
        "0003_three": "CREATE INDEX three ON {p}events (two);\n",
    }

    def until(count: int) -> None:
        def scripts(self: Schema) -> dict[str, str]:
            note = "INSERT INTO {p}migrations (name) VALUES ('%s');\n"
            added = {name: f"{later[name]}{note % name}" for name in [*later][:count]}
            return now(self) | {n: s.replace("{p}", self._prefix) for n, s in added.items()}

        monkeypatch.setattr(Schema, "scripts", scripts)

    for count in range(3):
        until(count)
        before = await connect(url).pending_migrations()
        await connect(url).migrate()
        assert len(before) == 1
    await connect(fresh).migrate()

    assert await dumped(url) == await dumped(fresh)
    async with connect(url) as store:
        await a_rich_conversation(store)
    await drop(fresh)


async def test_a_migration_that_stopped_halfway_is_gone_on_with(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17: the servers can't undo a change of tables."""
    scripts = Schema.scripts

    def broken(self: Schema) -> dict[str, str]:
        [(name, script)] = scripts(self).items()
        middle = script.index("CREATE TABLE IF NOT EXISTS", len(script) // 2)
        return {name: f"{script[:middle]}SELECT nothing;\n{script[middle:]}"}

    other = new_prefix()
    await connect(other).migrate()
    with monkeypatch.context() as patch:
        patch.setattr(Schema, "scripts", broken)
        with pytest.raises(StoreError):
            await connect(url).migrate()
    with pytest.raises(SchemaOutdated):
        await connect(url).open()
    await connect(url).migrate()

    assert await dumped(url) == await dumped(other)
    await drop(other)


async def test_a_change_that_was_made_but_not_noted_is_not_made_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17"""
    now = Schema.scripts
    await connect(url).migrate()
    prefix = prefix_of(url)
    await raw(url, f"ALTER TABLE {prefix}events ADD COLUMN two BIGINT")
    script = f"ALTER TABLE {prefix}events ADD COLUMN two BIGINT;\n"
    note = f"INSERT INTO {prefix}migrations (name) VALUES ('0002_two');\n"
    monkeypatch.setattr(Schema, "scripts", lambda self: now(self) | {"0002_two": script + note})

    await connect(url).migrate()

    assert await connect(url).pending_migrations() == []


async def test_processes_that_migrate_at_once_run_each_script_once(url: str) -> None:
    """L17"""
    race(4, "migrate", url)

    assert await raw(url, f"SELECT name FROM {prefix_of(url)}migrations") == [("0001_initial",)]
    async with connect(url) as store:
        await a_conversation(store)


async def test_newer_tables_are_refused(url: str) -> None:
    """L17"""
    store = connect(url)
    await store.migrate()
    await raw(url, f"INSERT INTO {prefix_of(url)}migrations (name) VALUES ('0099_future')")

    for use in (store.open, store.migrate, store.pending_migrations):
        with pytest.raises(SchemaTooNew) as caught:
            await use()
        assert (caught.value.found, caught.value.wanted) == (99, 1)


async def test_a_table_of_another_application_is_refused_and_left_alone(url: str) -> None:
    await raw(url, f"CREATE TABLE {prefix_of(url)}conversations (theirs INT)")

    for use in (connect(url).open, connect(url).migrate):
        with pytest.raises(NotAStore, match="choose other names with"):
            await use()


async def test_prefixes_of_one_database_are_apart(url: str) -> None:
    other = new_prefix()
    for each in (url, other):
        await connect(each).migrate()
    async with connect(url) as left, connect(other) as right:
        key = await a_conversation(left, says=["hello"])

        assert await right.owners() == []
        assert await right.search("ada", "hello") == []
        with pytest.raises(NotFound):
            await right.header(key)
    await drop(other)


async def test_the_longest_names_fit_into_every_index(url: str) -> None:
    """L7, L14"""
    await connect(url).migrate()
    long = ["😀" * 255 + "abcd", "😀" * 255 + "abce", "😀" * 255 + "abc "]
    async with connect(url) as store:
        for owner in long:
            for id in long:
                key = ConversationKey(owner, id)
                ops: list[Op] = [
                    PutRecord(owner, id, id.encode()),
                    Tag(owner, id, id),
                    Append(id, b"1", id=owner),
                ]
                await store.commit(key, ops, token=owner, create=SetHeader(when=0))

        for owner in long:
            assert {header.key.id for header in await store.headers(owner)} == set(long)
            for id in long:
                [record] = await store.records(ConversationKey(owner, id), owner)
                assert (record.key, record.data) == (id, id.encode())
                assert [found.ref for found in await store.find(owner, owner, id)] == [id]
        assert await store.owners() == sorted(long)


async def test_texts_over_64_kilobytes_are_not_cut(url: str) -> None:
    """L7"""
    await connect(url).migrate()
    long = b'"' + b"x" * 300_000 + b'"'
    async with connect(url) as store:
        key = a_key()
        title = "t" * 100_000
        ops: list[Op] = [Append("message", long, text="y" * 200_000), PutRecord("c", "k", long)]
        await store.commit(key, ops, create=SetHeader(title=title, metadata=long, settings=long))

        header = await store.header(key)
        assert (header.title, header.metadata, header.settings) == (title, long, long)
        assert [event.data for event in await store.events(key)] == [long]
        assert [record.data for record in await store.records(key, "c")] == [long]


@pytest.mark.parametrize("name", ["a; DROP TABLE x", "a.b", "", "1a", "a b", "é", "x" * 33, "a`b", "a-b"])
def test_what_is_no_plain_name_is_no_prefix(name: str) -> None:
    with pytest.raises(InvalidInput, match="prefix"):
        connect(f"mysql://localhost/db?prefix={name.replace(';', '%3B')}")


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("/db?colour=red", "unknown parameter 'colour'"),
        ("/db?password=hunter2&pool=2", "unknown parameter 'password'"),
        ("/db?pool=0", "pool is a number from 1 up"),
        ("/db?timeout=-1", "timeout is a number"),
        ("/db?durability=replicated", "durability is disk or os"),
        ("/db?ssl_mode=maybe", "ssl_mode is disabled or required or verify_identity"),
        ("", "names no database"),
        ("/", "names no database"),
        (":99999/db", "the port is a number"),
    ],
)
def test_a_url_that_can_not_be_right_is_refused(rest: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        connect(f"mariadb://ada:hunter2@localhost{rest}")

    assert "hunter2" not in str(caught.value)


async def test_a_server_that_may_lose_commits_is_refused_unless_the_url_says_so(url: str) -> None:
    await connect(url).migrate()

    with pytest.raises(WeakerThanAsked, match="innodb_flush_log_at_trx_commit=0"):
        await connect(url.replace("durability=os", "durability=disk")).open()

    async with connect(url) as store:
        assert store.limits.durability == "os"


async def test_an_error_of_a_store_that_lost_its_tables_is_ours(url: str) -> None:
    await connect(url).migrate()
    async with connect(url) as store:
        await a_conversation(store)
        await drop(url)

        for use in (
            lambda: store.header(a_key()),
            lambda: store.commit(a_key(), [noted(1)]),
            lambda: store.search("ada", "hello"),
            lambda: store.claim("holder", ttl=1),
        ):
            with pytest.raises(StoreError, match=r"lost its tables"):
                await use()


async def test_a_login_that_is_refused_is_said_to_be_so() -> None:
    url = url_of("mariadb").replace("root@", f"nobody-{os.urandom(2).hex()}:hunter2@")

    with pytest.raises(StoreError, match="does not let us in") as caught:
        await connect(url).open()

    assert "hunter2" not in str(caught.value)


def test_without_its_driver_the_store_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['asyncmy'] = None\n"
        "from holdfast.store import connect; connect('mysql://localhost/db')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "pip install 'holdfast[mysql]'" in done.stderr


def test_both_schemes_are_known() -> None:
    for scheme in ("mysql", "mariadb"):
        store = connect(f"{scheme}://ada:secret@db.example/agents?ssl_mode=verify_identity&prefix=mine_")
        assert "secret" not in store.url
