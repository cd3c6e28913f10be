"""Opening a Redis store: what the URL may say, and what is checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.servers import url_of
from tests.servers.process import free_ports

from holdfast.errors import (
    InvalidInput,
    NotAStore,
    SchemaTooNew,
    StoreClosed,
    StoreUnavailable,
    WeakerThanAsked,
)
from holdfast.store import connect
from holdfast.store.redis import RedisStore, checks
from holdfast.store.redis.url import RedisUrl
from holdfast.testing.build import a_conversation, a_key, said

from .redis_kit import Tuned, keys, raw, say

pytestmark = [pytest.mark.anyio, pytest.mark.server("valkey")]


@pytest.fixture(scope="module")
def durable() -> Iterator[Tuned]:
    server = Tuned(durable=True).start()
    yield server
    server.stop()


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "valkeys"])
def test_every_scheme_is_known(scheme: str) -> None:
    assert isinstance(connect(f"{scheme}://localhost"), RedisStore)


@pytest.mark.parametrize(
    ("url", "addresses", "user", "password", "db"),
    [
        ("redis://", [("localhost", 6379)], None, None, 0),
        ("redis://db.example", [("db.example", 6379)], None, None, 0),
        ("redis://db.example:7000/3", [("db.example", 7000)], None, None, 3),
        ("redis://:pass@localhost", [("localhost", 6379)], None, "pass", 0),
        ("redis://ada:p%40ss%2F@localhost/0", [("localhost", 6379)], "ada", "p@ss/", 0),
        ("redis://[::1]:7000", [("::1", 7000)], None, None, 0),
        ("redis://a:1,b:2,c/0?cluster=true", [("a", 1), ("b", 2), ("c", 6379)], None, None, 0),
    ],
)
def test_a_url_says_where_the_servers_are_and_who_we_are(
    url: str, addresses: list[tuple[str, int]], user: str | None, password: str | None, db: int
) -> None:
    parsed = RedisUrl.parse(url)

    assert [*parsed.addresses] == addresses
    assert (parsed.user, parsed.password, parsed.db) == (user, password, db)


def test_tls_checks_the_certificate_unless_the_url_says_otherwise() -> None:
    strict = RedisUrl.parse("rediss://localhost?ca=/etc/ca.pem")
    lax = RedisUrl.parse("valkeys://localhost?verify=false")

    assert strict.secure
    assert strict.tls == {
        "ssl_ca_certs": "/etc/ca.pem",
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
    }
    assert lax.tls["ssl_cert_reqs"] == "none"
    assert not RedisUrl.parse("redis://localhost").secure


@pytest.mark.parametrize(
    "rest",
    [
        "localhost/agents",
        "localhost:port",
        "localhost?unknown=1",
        "localhost?durability=forever",
        "localhost?shards=0",
        "localhost?shards=1.5",
        "localhost?shards=many",
        "localhost?timeout=0",
        "localhost?timeout=nan",
        "localhost?ttl=-1",
        "localhost?cluster=yes",
        "localhost?prefix=",
        "localhost?prefix=a{b}",
        "localhost?replicas=1",
        "localhost?durability=replicated&replicas=0",
    ],
)
def test_a_url_that_can_not_work_is_refused_without_its_password(rest: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        connect(f"redis://ada:hunter2@{rest}")

    assert "hunter2" not in str(caught.value)
    assert "ada:***@localhost" in str(caught.value)


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    [port] = free_ports(1)
    store = connect(f"redis://ada:hunter2@127.0.0.1:{port}/0")

    for use in (store.open, store.migrate, store.pending_migrations):
        with pytest.raises(StoreUnavailable) as caught:
            await use()

        assert f"redis://ada:***@127.0.0.1:{port}/0 can't be reached" in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is not None
    with pytest.raises(StoreClosed, match=r"ada:\*\*\*@"):
        await store.header(a_key())


async def test_a_wrong_password_is_said_to_be_wrong_and_not_shown(durable: Tuned) -> None:
    store = connect(f"redis://ada:hunter2@127.0.0.1:{durable.port}")

    with pytest.raises(StoreUnavailable, match="does not let us in") as caught:
        await store.open()

    assert "hunter2" not in str(caught.value)


async def test_a_server_that_syncs_each_write_is_taken_and_can_be_scrubbed(
    durable: Tuned, prefix: str
) -> None:
    for asked in ("", "&durability=disk", "&durability=os", "&durability=memory"):
        async with connect(f"{durable.url}?prefix={prefix}{asked}") as store:
            await a_conversation(store, f"c{asked}")

            assert store.limits.durability == (asked.rpartition("=")[2] or "disk")
            assert store.limits.scrub


@pytest.mark.parametrize(
    ("settings", "asked", "advice"),
    [
        ({"appendonly": "no"}, "", "appendonly yes"),
        ({"appendonly": "no"}, "durability=os", "appendonly yes"),
        ({"appendonly": "no", "appendfsync": "everysec"}, "durability=disk", "appendfsync always"),
        ({"appendfsync": "everysec"}, "", "durability=os in the URL"),
        ({"appendfsync": "no"}, "durability=disk", "appendfsync always"),
        ({"no-appendfsync-on-rewrite": "yes"}, "", "SET no-appendfsync-on-rewrite no"),
        ({"maxmemory-policy": "allkeys-lru"}, "", "maxmemory-policy noeviction"),
        ({"maxmemory-policy": "volatile-ttl"}, "durability=disk", "maxmemory-policy noeviction"),
        ({"maxmemory-policy": "allkeys-random"}, "durability=memory", "maxmemory-policy noeviction"),
        ({}, "durability=replicated&replicas=2", "0 replicas"),
    ],
)
async def test_a_server_that_may_lose_what_it_acknowledged_is_refused(
    prefix: str, settings: dict[str, str], asked: str, advice: str
) -> None:
    server = Tuned(*(part for name, value in settings.items() for part in (f"--{name}", value)), durable=True)
    server.start()
    try:
        with pytest.raises(WeakerThanAsked, match=advice):
            await connect(f"{server.url}?prefix={prefix}&{asked}").open()

        assert raw(server).dbsize() == 0
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("settings", "durability"),
    [
        ({"appendonly": "no"}, "memory"),
        ({"appendonly": "no", "maxmemory-policy": "volatile-lru"}, "memory"),
        ({"appendfsync": "everysec"}, "os"),
        ({"appendfsync": "everysec"}, "memory"),
    ],
)
async def test_a_weaker_server_is_taken_where_the_url_says_so(
    prefix: str, settings: dict[str, str], durability: str
) -> None:
    server = Tuned(*(part for name, value in settings.items() for part in (f"--{name}", value)), durable=True)
    server.start()
    try:
        async with connect(f"{server.url}?prefix={prefix}&durability={durability}") as store:
            assert store.limits.durability == durability
    finally:
        server.stop()


async def test_where_nobody_may_read_the_settings_the_url_has_to_say_what_they_are_worth(
    durable: Tuned, prefix: str
) -> None:
    """As managed services have it."""
    say(raw(durable), "ACL", "SETUSER", "tenant", "on", ">secret", "~*", "&*", "+@all", "-config")
    url = f"redis://tenant:secret@127.0.0.1:{durable.port}?prefix={prefix}"

    with pytest.raises(WeakerThanAsked, match="durability=disk if appendonly is yes"):
        await connect(url).open()

    async with connect(f"{url}&durability=disk") as store:
        await a_conversation(store)
        assert (store.limits.durability, store.limits.scrub) == ("disk", False)


async def test_what_the_server_does_not_allow_is_named(durable: Tuned, prefix: str) -> None:
    say(raw(durable), "ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-evalsha")

    with pytest.raises(StoreUnavailable, match=r"does not allow what the store needs.*evalsha"):
        await connect(f"redis://reader:secret@127.0.0.1:{durable.port}?prefix={prefix}").open()


async def test_a_server_that_is_too_old_is_named(
    durable: Tuned, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "OLDEST", 99)

    with pytest.raises(StoreUnavailable, match=r"is Redis 7\.\S+; the store needs Redis 99"):
        await connect(f"{durable.url}?prefix={prefix}").open()


async def test_a_store_of_a_newer_version_is_refused_and_left_alone(durable: Tuned, prefix: str) -> None:
    """L17"""
    store = connect(f"{durable.url}?prefix={prefix}")
    await store.migrate()
    raw(durable).hset(f"{prefix}:meta", "format", "2")

    for use in (store.open, store.migrate, store.pending_migrations):
        with pytest.raises(SchemaTooNew) as caught:
            await use()
        assert (caught.value.found, caught.value.wanted) == (2, 1)

    assert keys(raw(durable), prefix) == []


async def test_looking_for_migrations_writes_nothing_and_migrating_writes_the_version(
    durable: Tuned, prefix: str
) -> None:
    """L17"""
    store = connect(f"{durable.url}?prefix={prefix}")

    assert await store.pending_migrations() == []
    assert not raw(durable).exists(f"{prefix}:meta")
    await store.migrate()

    assert raw(durable).hgetall(f"{prefix}:meta") == {b"format": b"1", b"shards": b"16"}


async def test_the_number_of_shards_is_chosen_once(durable: Tuned, prefix: str) -> None:
    url = f"{durable.url}?prefix={prefix}"
    async with connect(f"{url}&shards=5") as store:
        key = await a_conversation(store, says=["hello"])

    with pytest.raises(InvalidInput, match="5 shards"):
        await connect(f"{url}&shards=6").open()

    for same in (url, f"{url}&shards=5"):
        async with connect(same) as store:
            assert len(await store.events(key)) == 1


async def test_keys_of_another_application_are_not_touched(durable: Tuned, prefix: str) -> None:
    raw(durable).set(f"{prefix}:meta", "something else")

    with pytest.raises(NotAStore, match="prefix"):
        await connect(f"{durable.url}?prefix={prefix}").open()

    assert raw(durable).get(f"{prefix}:meta") == b"something else"


async def test_stores_under_different_prefixes_and_numbers_are_apart(durable: Tuned, prefix: str) -> None:
    urls = [
        f"{durable.url}?prefix={prefix}",
        f"{durable.url}?prefix={prefix}2",
        f"{durable.url[:-1]}1?prefix={prefix}",
    ]
    for number, url in enumerate(urls):
        async with connect(url) as store:
            await a_conversation(store, says=[f"hello {number}"])

    for number, url in enumerate(urls):
        async with connect(url) as store:
            assert [event.data for event in await store.events(a_key())] == [b'{"text": "hello %d"}' % number]


async def test_a_cluster_is_not_taken_for_one_server_nor_the_other_way_round(prefix: str) -> None:
    node = url_of("valkey_cluster").partition("?")[0]

    with pytest.raises(InvalidInput, match="is no cluster"):
        await connect(f"{url_of('valkey')}?cluster=true&durability=memory&prefix={prefix}").open()
    with pytest.raises(StoreUnavailable, match="cluster=true"):
        await _write_for_many_owners(f"{node}?durability=memory&prefix={prefix}")


async def _write_for_many_owners(url: str) -> None:
    async with connect(url) as store:
        for number in range(50):
            await a_conversation(store, "c-1", f"owner {number}", ops=[said("hello")])
