"""The Redis store when the server, the network or the neighbours misbehave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from uuid import uuid4

import pytest

from holdfast.clock import SECOND, system_clock
from holdfast.errors import StoreFull, StoreUnavailable
from holdfast.model.records import Commit, Notice
from holdfast.store import Append, SetHeader, Tag, connect
from holdfast.store.redis import RedisStore, news, wire
from holdfast.testing.build import a_conversation, a_key, a_rich_conversation, interrupted, noted, put, said

from .racing import RacingProcesses
from .redis_kit import Tuned, eventually, keys, raw, say, until
from .wires import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.server("valkey")]


@pytest.fixture(scope="module")
def server() -> Iterator[Tuned]:
    """A server of this file's own, that syncs: tests here kill it."""
    server = Tuned(durable=True).start()
    yield server
    server.stop()


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.fixture
def url(server: Tuned, prefix: str) -> str:
    return f"{server.url}?prefix={prefix}&shards=4"


@pytest.fixture
async def between(server: Tuned) -> AsyncIterator[Wire]:
    async with Wire(server.port) as wire:
        yield wire


async def hint(notices: AsyncIterator[Notice]) -> Notice:
    async with asyncio.timeout(30):
        return await anext(notices)


async def test_everything_acknowledged_is_there_after_the_server_was_killed_and_the_client_goes_on(
    server: Tuned, url: str
) -> None:
    """L3, L5"""
    acknowledged: dict[str, Commit] = {}
    async with connect(f"{url}&timeout=5") as store:
        writers = [await a_conversation(store, f"c-{n}") for n in range(6)]
        stop = False

        async def write(number: int) -> None:
            count = 0
            while not stop:
                token = f"{number}-{count}"
                acknowledged[token] = await until(
                    lambda token=token: store.commit(  # type: ignore[misc]
                        writers[number],
                        [Append("n", f'"{token}"'.encode()), put("last", token.encode())],
                        token=token,
                    )
                )
                count += 1

        tasks = [asyncio.create_task(write(number)) for number in range(len(writers))]
        for _ in range(3):
            before = len(acknowledged)
            await eventually(lambda before=before: len(acknowledged) > before + 50)  # type: ignore[misc]
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        before = len(acknowledged)
        await eventually(lambda: len(acknowledged) > before + 50)
        stop = True
        await asyncio.gather(*tasks)

    async with connect(url) as store:
        for number, key in enumerate(writers):
            mine = {t: c for t, c in acknowledged.items() if t.startswith(f"{number}-")}
            events = await store.events(key)
            assert [event.data.decode() for event in events] == [f'"{token}"' for token in mine]
            assert [commit.seqs for commit in mine.values()] == [(n,) for n in range(1, len(events) + 1)]
            [record] = await store.records(key, "notes")
            assert record.data.decode() == [*mine][-1]


@pytest.mark.parametrize("create", [False, True])
async def test_a_commit_whose_answer_was_lost_is_applied_once_when_it_is_repeated(
    url: str, between: Wire, create: bool
) -> None:
    """L5"""
    async with connect(url) as direct, connect(between.through(url)) as store:
        # So that the server has the script, and what is lost is the answer to the commit itself.
        await a_conversation(direct, "other" if create else "c-1")

        async def commit() -> Commit:
            return await store.commit(
                a_key(), [said("hello"), put("a", when=0)], token="t-1", create=SetHeader()
            )

        between.fatal = b"hello"
        with pytest.raises(StoreUnavailable, match="repeat it with its token"):
            await commit()
        between.fatal = None
        applied = await direct.events(a_key())
        first = await commit()

        assert len(applied) == 1
        assert await commit() == first
        assert first.seqs == (1,)
        assert len(await direct.events(a_key())) == 1


async def test_those_who_were_sent_together_and_lost_their_answers_are_all_told_so(
    url: str, between: Wire
) -> None:
    """L5: nobody knows, so nobody may be told that it failed."""
    async with connect(url) as direct, connect(between.through(url)) as store:
        written = [await a_conversation(direct, f"c-{n}") for n in range(8)]
        await store.header(written[0])

        between.fatal = b"hello"
        outcomes = await asyncio.gather(
            *(store.commit(key, [said("hello")], token="t") for key in written), return_exceptions=True
        )
        between.fatal = None
        again = [await store.commit(key, [said("hello")], token="t") for key in written]

        assert any(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert [commit.seqs for commit in again] == [(1,)] * 8
        for key in written:
            assert len(await direct.events(key)) == 1


async def test_a_connection_that_was_dropped_while_idle_is_made_anew_without_an_error(
    server: Tuned, url: str, between: Wire
) -> None:
    """L19"""
    async with connect(between.through(url)) as store:
        key = await a_conversation(store)
        for number in range(3):
            between.cut()
            await eventually(lambda: not between._ends)
            await asyncio.sleep(0.01)

            assert (await store.commit(key, [noted(number)])).seqs == (number + 1,)


async def test_a_server_that_hangs_gives_a_clear_error_in_time_and_is_used_again_when_it_goes_on(
    server: Tuned, url: str
) -> None:
    async with connect(f"{url}&timeout=0.3") as store:
        key = await a_conversation(store, says=["one"])
        uses: list[Callable[[], Awaitable[object]]] = [
            lambda: store.header(key),
            lambda: store.commit(key, [noted(1)], token="t-1"),
            lambda: store.acquire(key, "holder", ttl=1),
            connect(f"{url}&timeout=0.3").open,
        ]
        server.pause()
        try:
            for use in uses:
                started = time.monotonic()
                with pytest.raises(StoreUnavailable, match=r"answer"):
                    await use()
                assert time.monotonic() - started < 5
        finally:
            server.resume()

        again = await until(lambda: store.commit(key, [noted(1)], token="t-1"))

        assert again.seqs == (2,)
        assert len(await store.events(key)) == 2


async def test_where_too_many_wait_others_wait_for_room_and_then_get_a_clear_error(
    server: Tuned, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_PENDING", 16)
    async with connect(f"{url}&timeout=0.5") as store:
        key = await a_conversation(store)

        many = await asyncio.gather(*(store.commit(key, [noted(n)]) for n in range(200)))
        server.pause()
        try:
            outcomes = await asyncio.gather(
                *(store.commit(key, [noted(n)], token=f"{n}") for n in range(200)), return_exceptions=True
            )
        finally:
            server.resume()
        await until(lambda: store.commit(key, [noted(0)], token="0"))

        assert {seq for commit in many for seq in commit.seqs} == set(range(1, 201))
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert any("16 commands wait" in str(outcome) for outcome in outcomes)


async def test_those_who_stopped_waiting_leave_their_room_to_others(
    server: Tuned, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L20"""
    monkeypatch.setattr(wire, "MAX_PENDING", 4)
    async with connect(f"{url}&timeout=0.3") as store:
        key = await a_conversation(store)
        for _ in range(3):
            server.pause()
            waiting = [asyncio.create_task(store.commit(key, [noted(n)], token="t")) for n in range(4)]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            with pytest.raises(StoreUnavailable):
                await store.header(key)
            server.resume()

            await until(lambda: store.header(key))
        commits = await asyncio.gather(*(store.commit(key, [noted(n)]) for n in range(20)))

        assert len({commit.seqs for commit in commits}) == 20


async def test_scripts_that_the_server_forgot_are_given_to_it_again(server: Tuned, url: str) -> None:
    async with connect(url) as store:
        key = await a_rich_conversation(store)
        lease = await store.acquire(key, "holder", ttl=10)
        assert lease is not None
        uses: list[Callable[[], Awaitable[object]]] = [
            lambda: store.commit(key, [noted(1)]),
            lambda: store.commit(key, [put("x"), noted(2)]),
            lambda: store.load(key),
            lambda: store.renew([lease], ttl=10),
            lambda: store.fork(key, "fork"),
            lambda: store.delete(a_key("fork")),
        ]

        for use in uses:
            raw(server).script_flush()
            await use()
        raw(server).script_flush()
        await asyncio.gather(*(store.commit(key, [noted(n)]) for n in range(20)))

        assert (await store.header(key)).last_seq == 4 + 2 + 20


async def test_when_the_memory_is_full_a_commit_fails_as_a_whole_and_works_again_when_there_is_room(
    prefix: str,
) -> None:
    server = Tuned("--maxmemory", "6mb", durable=True).start()
    try:
        async with connect(f"{server.url}?prefix={prefix}&shards=4") as store:
            key = await a_conversation(store)
            written = 0

            async def fill() -> None:
                nonlocal written
                while True:
                    body = b'"%b"' % (b"x" * 20_000)
                    await store.commit(
                        key, [Append("n", body), put(f"{written}", body), Tag("n", f"{written}")]
                    )
                    written += 1

            with pytest.raises(StoreFull):
                await fill()
            full = (await store.header(key)).last_seq
            found = len(await store.records(key, "notes"))
            raw(server).config_set("maxmemory", "0")
            after = await store.commit(key, [noted(1)])

            assert written > 10
            assert full == found == written
            assert after.seqs == (written + 1,)
            assert await store.find("ada", "n", f"{written}") == []
    finally:
        server.stop()


async def test_hints_that_may_not_be_published_do_not_stop_a_commit(server: Tuned, prefix: str) -> None:
    say(raw(server), "ACL", "SETUSER", "mute", "on", ">secret", "~*", "resetchannels", "+@all")
    url = f"redis://mute:secret@127.0.0.1:{server.port}?prefix={prefix}"
    async with connect(url) as store:
        key = await a_conversation(store, says=["one"])

        await store.commit(key, [said("two"), Tag("a", "b")])
        lease = await store.acquire(key, "holder", ttl=10)
        assert lease is not None
        await store.release(lease, defer=1)

        assert len(await store.events(key)) == 2
        assert (await store.header(key)).lease is None


async def test_a_watch_goes_on_after_its_connection_was_lost(server: Tuned, url: str) -> None:
    async with connect(url) as store, connect(url) as other:
        key = await a_conversation(store)
        async with store.watch([key]) as of_one, store.watch() as of_all:
            for number in range(3):
                subscribers = say(raw(server), "CLIENT", "LIST", "TYPE", "pubsub")
                say(raw(server), "CLIENT", "KILL", "TYPE", "pubsub")
                await other.commit(key, [noted(number)])

                assert subscribers
                assert (await hint(of_one)).key == key
                assert (await hint(of_all)).key in (key, None)
            await eventually(lambda: bool(say(raw(server), "CLIENT", "LIST", "TYPE", "pubsub")))
            await _signalled(other, of_one)


async def _signalled(sender: object, notices: AsyncIterator[Notice]) -> None:
    """Signal again and again until one arrives."""
    assert isinstance(sender, RedisStore)

    async def send() -> None:
        while True:
            await sender.signal(a_key(), b"hello")
            await asyncio.sleep(0.01)

    sending = asyncio.create_task(send())
    while (await hint(notices)).payload != b"hello":
        pass
    sending.cancel()


async def test_a_watch_that_follows_another_of_the_same_conversation_is_ready_at_once(url: str) -> None:
    async with connect(url) as store:
        assert isinstance(store, RedisStore)
        key = await a_conversation(store)
        channel = store._keys.place(key).channel
        for number in range(5):
            async with store.watch([key]) as notices:
                ready = store._news._channels[channel].ready.is_set()
                await store.commit(key, [noted(number)])

                assert (await hint(notices)).key == key
                assert ready


async def test_a_hint_that_is_lost_is_delayed_and_not_lost(
    server: Tuned, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may publish or subscribe."""
    monkeypatch.setattr(news, "POLL_SECONDS", 0.05)
    say(raw(server), "ACL", "SETUSER", "mute", "on", ">secret", "~*", "resetchannels", "+@all")
    url = f"redis://mute:secret@127.0.0.1:{server.port}?prefix={prefix}"
    async with connect(url) as store, connect(url) as other:
        key = await a_conversation(store)
        async with store.watch([key]) as of_one, store.watch() as of_all:
            for number in range(3):
                await other.commit(key, [noted(number)])

                assert (await hint(of_one)).key == key
                assert (await hint(of_all)).key in (key, None)


class TestProcessesOnRedis(RacingProcesses):
    """Each of them is a process of its own."""


async def test_what_a_fork_or_delete_left_when_its_process_died_is_removed(
    server: Tuned, url: str, prefix: str
) -> None:
    async with connect(url) as dying:
        assert isinstance(dying, RedisStore)
        await a_rich_conversation(dying)
        await dying._whole.begin_fork(b"", a_key(), a_key("fork"), None, [])
        await dying._whole.hide(b"", a_key())
    left = keys(raw(server), prefix)

    async with connect(url) as store:
        seen = [await store.find("ada", "topic", "travel"), await store.open_calls("ada"), await store.due()]
    after_open = keys(raw(server), prefix)
    async with connect(url, clock=lambda: system_clock() + 3600 * SECOND):
        pass
    in_the_end = keys(raw(server), prefix)

    assert seen == [[], [], []]
    assert len([key for key in left if b"head::" in key]) == 2
    assert len([key for key in after_open if b"head::" in key]) == 1
    assert {key.partition(b"}")[2] for key in in_the_end} == {b"numbers"}


async def test_a_delete_that_is_under_way_is_not_seen_by_any_read(url: str) -> None:
    async with connect(url) as store:
        assert isinstance(store, RedisStore)
        await a_rich_conversation(store)
        hidden = await store._whole.hide(b"", a_key())
        assert hidden is not None
        later = await a_conversation(store, calls=[interrupted("interrupted", expires_in=60)])

        found = await store.find("ada", "topic", "travel")
        tagged = await store.headers("ada", tag=("topic", "travel"))
        waiting = await store.open_calls("ada")
        await store._whole.remove(hidden[0])

        assert (found, tagged) == ([], [])
        assert [(call.key, call.call_id) for call in waiting] == [(later, "interrupted")]
        assert await store.open_calls("ada") == waiting
