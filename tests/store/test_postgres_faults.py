"""The PostgreSQL store when the server, the network or the neighbours misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.servers.postgres import Postgres
from tests.servers.process import free_ports

from holdfast.errors import StoreUnavailable
from holdfast.model.records import Commit
from holdfast.store import Op, SetHeader, connect
from holdfast.store.postgres import PostgresStore
from holdfast.testing.build import a_conversation, a_key, noted, put, said

from .patience import eventually, until
from .racing import RacingProcesses
from .wires import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.server("postgres")]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server of this file's own, that keeps its syncs: tests here kill it."""
    server = Postgres(durable=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def url(server: Postgres) -> AsyncIterator[str]:
    """An empty schema with the names of the default one."""
    await connect(server.url).migrate()
    yield server.url
    raw = await asyncpg.connect(server.url)
    await raw.execute("DROP SCHEMA holdfast CASCADE")
    await raw.close()


@pytest.fixture
async def wire(server: Postgres) -> AsyncIterator[Wire]:
    async with Wire(server.port) as wire:
        yield wire


def processes(server: Postgres) -> list[int]:
    """The server's process, and the one of each connection: PostgreSQL gives them groups of their own."""
    assert server._process is not None
    pid = server._process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def signal_all(pids: list[int], what: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    [port] = free_ports(1)
    store = connect(f"postgresql://ada:hunter2@127.0.0.1:{port}/agents")

    for use in (store.open, store.migrate, store.pending_migrations):
        with pytest.raises(StoreUnavailable) as caught:
            await use()

        assert f"postgresql://ada:***@127.0.0.1:{port}/agents" in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)


async def test_a_database_that_is_not_there_is_said_to_be_so(server: Postgres) -> None:
    with pytest.raises(StoreUnavailable, match='database "nothing" does not exist'):
        await connect(f"{server.url.removesuffix('/postgres')}/nothing").open()


async def test_a_server_that_hangs_gives_a_clear_error_in_time_and_is_used_again_when_it_goes_on(
    server: Postgres, url: str
) -> None:
    async with connect(f"{url}?timeout=0.3") as store:
        key = await a_conversation(store, says=["one"])
        stopped = processes(server)
        signal_all(stopped, signal.SIGSTOP)
        try:
            for use in (
                lambda: store.header(key),
                lambda: store.commit(key, [noted(1)], token="t-1"),
                lambda: store.acquire(key, "holder", ttl=1),
                connect(f"{url}?timeout=0.3").open,
            ):
                started = time.monotonic()
                with pytest.raises(StoreUnavailable, match="did not answer in time"):
                    await use()
                assert time.monotonic() - started < 5
        finally:
            signal_all(stopped, signal.SIGCONT)

        again = await until(lambda: store.commit(key, [noted(1)], token="t-1"))

        assert again.seqs == (2,)
        assert len(await store.events(key)) == 2


@pytest.mark.parametrize("create", [False, True])
async def test_a_commit_whose_answer_was_lost_is_applied_once_when_it_is_repeated(
    url: str, wire: Wire, create: bool
) -> None:
    """L5"""
    async with connect(url) as direct, connect(wire.through(url)) as store:
        if not create:
            await a_conversation(direct)

        async def commit() -> Commit:
            return await store.commit(
                a_key(), [said("hello"), put("a", when=0)], token="t-1", create=SetHeader()
            )

        wire.fatal = b"hello"
        with pytest.raises(StoreUnavailable):
            await commit()
        wire.fatal = None
        applied = await direct.events(a_key())
        first = await commit()

        assert len(applied) == 1
        assert await commit() == first
        assert first.seqs == (1,)
        assert len(await direct.events(a_key())) == 1


async def test_those_whose_group_lost_its_answer_are_told_so_and_all_of_it_is_there(
    url: str, wire: Wire
) -> None:
    """L5: nobody knows, so nobody may be told that it failed."""
    async with connect(url) as direct, connect(wire.through(url)) as store:
        keys = [await a_conversation(direct, f"c-{n}") for n in range(8)]

        wire.fatal = b"hello"
        outcomes = await asyncio.gather(
            *(store.commit(key, [said("hello")]) for key in keys), return_exceptions=True
        )
        wire.fatal = None

        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 8
        assert [(await direct.header(key)).last_seq for key in keys] == [1] * 8


async def test_connections_that_were_dropped_while_idle_are_replaced_without_an_error(
    url: str, wire: Wire
) -> None:
    """L19"""
    async with connect(wire.through(url)) as store:
        assert isinstance(store, PostgresStore)
        key = await a_conversation(store)
        await asyncio.gather(*(store.header(key) for _ in range(8)))

        for number in range(3):
            await store.settle()
            wire.cut()
            await eventually(lambda: all(idle.connection.is_closed() for idle in store._pool._idle))
            await store.commit(key, [noted(number)])

        assert [event.seq for event in await store.events(key)] == [1, 2, 3]


async def test_a_connection_that_was_dropped_in_silence_is_found_before_it_is_used(
    url: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L19: a firewall forgets a connection and tells neither side."""
    monkeypatch.setattr("holdfast.store.sql.pool.IDLE_SECONDS", 0.0)
    async with connect(f"{wire.through(url)}?timeout=0.5") as store:
        assert isinstance(store, PostgresStore)
        monkeypatch.setattr(store._channel, "tell", lambda keys: None)
        key = await a_conversation(store)
        wire.silent = True
        reading = asyncio.create_task(store.header(key))
        await asyncio.sleep(0.1)
        wire.silent = False

        assert (await reading).key == key


async def test_when_all_connections_are_busy_others_wait_and_then_get_a_clear_error(url: str) -> None:
    raw = await asyncpg.connect(url)
    async with connect(f"{url}?pool=1&timeout=0.6") as store:
        keys = [await a_conversation(store, id) for id in ("left", "right", "free")]
        async with raw.transaction():
            await raw.execute("SELECT FROM holdfast.conversations WHERE id IN ('left', 'right') FOR UPDATE")
            # Each of them has the only connection until the server gives up waiting for the lock.
            stuck = []
            for key in keys[:2]:
                stuck.append(asyncio.create_task(store.commit(key, [noted(1)])))
                await asyncio.sleep(0.05)
            with pytest.raises(StoreUnavailable, match=r"all 1 connections were in use .* \?pool=2"):
                await asyncio.gather(*(store.header(keys[2]) for _ in range(3)))
            outcomes = await asyncio.gather(*stuck, return_exceptions=True)

        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        await store.commit(keys[0], [noted(1)])
        assert (await store.header(keys[2])).last_seq == 0
    await raw.close()


async def test_many_more_tasks_than_connections_all_get_through(url: str) -> None:
    async with connect(f"{url}?pool=2") as store:
        keys = [await a_conversation(store, f"c-{n}", says=["hello"]) for n in range(10)]

        async def use(number: int) -> None:
            key = keys[number % 10]
            await store.commit(key, [noted(number), put(f"{number}")], token=f"{number}")
            await store.load(key)
            await store.fork(key, f"fork-{number}")
            await store.search("ada", "hello")

        await asyncio.gather(*(use(number) for number in range(60)))

        assert len(await store.headers("ada", limit=100)) == 70


async def test_everything_acknowledged_is_there_after_the_server_was_killed_and_the_client_goes_on(
    server: Postgres, url: str
) -> None:
    acknowledged: dict[str, tuple[int, ...]] = {}
    killed = asyncio.Event()
    async with connect(f"{url}?timeout=5") as store:
        keys = [await a_conversation(store, f"c-{n}") for n in range(4)]

        async def write(task: int) -> None:
            number = 0
            while not killed.is_set() or number % 5:
                name = f"{task}-{number}"
                ops: list[Op] = [said(name), put(name)] if number % 2 else [said(name)]
                commit = await until(partial(store.commit, keys[task % 4], ops, token=name))
                acknowledged[name] = commit.seqs
                number += 1

        writing = [asyncio.create_task(write(task)) for task in range(8)]
        await eventually(lambda: len(acknowledged) >= 100)
        signal_all(processes(server), signal.SIGKILL)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        started = time.monotonic()
        await until(lambda: store.header(keys[0]))
        recovered = time.monotonic() - started
        killed.set()
        await asyncio.gather(*writing)

        found: dict[str, tuple[int, ...]] = {}
        for key in keys:
            events = await store.events(key)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            found |= {event.data.split(b'"')[3].decode(): (event.seq,) for event in events}
        assert found == acknowledged
        assert recovered < 5


async def test_a_watch_goes_on_after_its_connection_was_lost(url: str, wire: Wire) -> None:
    async with connect(url) as writer, connect(wire.through(url)) as watcher:
        key = await a_conversation(writer)
        async with watcher.watch([key]) as notices, asyncio.timeout(20):
            for number in range(3):
                wire.cut()
                await writer.commit(key, [noted(number)])
                assert (await anext(notices)).key == key
            wire.cut()

            async def send() -> None:
                while True:
                    await writer.signal(key, b"cancel")
                    await asyncio.sleep(0.05)

            signalling = asyncio.create_task(send())
            while (await anext(notices)).payload != b"cancel":
                pass
            signalling.cancel()


async def test_a_notification_that_is_lost_delays_a_hint_and_does_not_lose_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(url) as writer, connect(url) as watcher:
        assert isinstance(writer, PostgresStore)
        key = await a_conversation(writer)
        monkeypatch.setattr(writer._channel, "tell", lambda keys: None)
        async with watcher.watch([key]) as of_one, watcher.watch() as of_all:
            async with asyncio.timeout(watcher.limits.watch_delay + 10):
                await writer.commit(key, [noted(1)])

                assert (await anext(of_one)).key == key
                assert (await anext(of_all)).key in (None, key)


@pytest.mark.parametrize("size", [0, 1, 6_000, 100_000])
async def test_a_signal_of_any_size_arrives_whole_in_another_process(url: str, size: int) -> None:
    payload = bytes(n % 256 for n in range(size))
    async with connect(url) as sender, connect(url) as receiver:
        key = await a_conversation(sender)
        async with receiver.watch([key]) as notices, asyncio.timeout(20):
            await sender.signal(key, payload)

            while (notice := await anext(notices)).payload is None:
                pass
            assert notice.payload == payload


class TestProcessesOnPostgreSQL(RacingProcesses):
    """Each of them is a process of its own."""


async def test_what_a_fork_or_delete_left_when_its_process_died_is_removed(url: str) -> None:
    async with connect(url) as store:
        await a_conversation(store, says=["hello"] * 3, ops=[noted(n) for n in range(2_000)])
        dying = connect(url)
        await dying.open()
        assert isinstance(dying, PostgresStore)
        forking = await dying._slices.begin_fork(a_key(), a_key("fork"), None)
        await dying._slices.fork_slice(forking, 1_000)
        await dying._slices.hide(a_key(), None)
    raw = await asyncpg.connect(url)
    left = await raw.fetchval("SELECT count(*) FROM holdfast.conversations WHERE owner IS NULL")

    async with connect(url):
        pass
    after_open = await raw.fetchval("SELECT count(*) FROM holdfast.conversations WHERE owner IS NULL")
    later = 1_000_000 * round(time.time() + 3600)
    async with connect(url, clock=lambda: later):
        pass
    in_the_end = [
        await raw.fetchval(f"SELECT count(*) FROM holdfast.{table}") for table in ("conversations", "events")
    ]

    assert (left, after_open) == (2, 1)
    assert in_the_end == [0, 0]
    await dying.close()
    await raw.close()
