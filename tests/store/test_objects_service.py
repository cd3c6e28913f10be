"""The objects store on a real S3 server: what it costs, and what it does when the server does not answer."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.servers import url_of
from tests.servers.objects import SECRET_KEY, Seaweed
from tests.servers.process import free_ports

from holdfast.errors import NotAStore, StoreUnavailable, WeakerThanAsked
from holdfast.model.records import Commit
from holdfast.store import Append, ConversationKey, SetHeader, Store, connect
from holdfast.store.objects import bucket, opening
from holdfast.testing.build import a_conversation, interrupted, noted, put, said

from .objects_proxy import Proxy
from .objects_service import CREDENTIALS, Service

KEY = ConversationKey("ada", "c-1")
RACERS = Path(__file__).parent / "objects_racers.py"

pytestmark = [pytest.mark.anyio, pytest.mark.server("seaweed")]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def service() -> Service:
    return Service.of_this_run()


@pytest.fixture
async def proxy(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    """A way to the server that loses answers. SeaweedFS needs seconds for a probe, which others make."""
    async with Proxy(service.endpoint).running() as proxy:
        monkeypatch.setattr(opening, "_proved", {f"s3 holdfast {proxy.endpoint}"})
        yield proxy


@pytest.fixture
async def store(service: Service, proxy: Proxy) -> AsyncIterator[Store]:
    async with connect(through(service, proxy)) as store:
        yield store


def through(service: Service, proxy: Proxy) -> str:
    return service.url.replace(service.endpoint, proxy.endpoint) + "&timeout=2&poll=0.1"


def counted(requests: list[str]) -> Counter[str]:
    return Counter(request.partition(" ")[0] for request in requests)


async def data(store: Store) -> list[bytes]:
    events = await store.events(KEY)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.data for event in events]


# What it costs


async def test_an_append_is_one_request_and_ten_thousand_events_are_read_with_few(
    service: Service, store: Store, proxy: Proxy
) -> None:
    await store.commit(KEY, [noted(0)], create=SetHeader())
    proxy.requests.clear()
    await store.commit(KEY, [noted(0)], token="t-1")
    assert counted(proxy.requests) == {"PUT": 1}

    for number in range(196):
        await store.commit(KEY, [noted(number)] * 51)
    await store.settle()
    async with connect(through(service, proxy)) as cold:
        proxy.requests.clear()
        events = await cold.events(KEY)

    assert len(events) == 2 + 196 * 51 == 9_998
    assert len(proxy.requests) <= 20, proxy.requests


async def test_a_conversation_with_more_objects_than_a_page_is_read(
    service: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest checkpoint is on the first page, and what is older is not listed."""
    monkeypatch.setattr(bucket, "PAGE", 50)
    await store.commit(KEY, [noted(0)], create=SetHeader())
    for number in range(100):
        await store.commit(KEY, [noted(number)])
    await store.settle()
    await store.commit(KEY, [noted(100)])
    assert len(service.names()) > 2 * 50

    async with connect(service.url) as cold:
        assert len(await data(cold)) == 102
        assert (await cold.commit(KEY, [noted(2)])).seqs == (103,)
        await cold.delete(KEY)
        assert await cold.headers("ada") == []


# A server that can't be used


@pytest.mark.server("rclone")
async def test_a_server_that_ignores_conditions_is_refused() -> None:
    with pytest.raises(WeakerThanAsked, match="If-None-Match"):
        await connect(url_of("rclone")).open()


async def test_a_server_that_is_not_there_is_named(service: Service) -> None:
    [port] = free_ports(1)
    url = f"s3://holdfast/{service.prefix}?endpoint=http://127.0.0.1:{port}&timeout=1"

    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}") as caught:
        await connect(url).open()

    assert caught.value.__cause__ is not None


async def test_a_bucket_that_does_not_exist_is_named(service: Service) -> None:
    """It is no trouble that goes away, so it is not unavailable, and nobody tries again."""
    url = service.url.replace("s3://holdfast/", "s3://missing/")
    started = time.monotonic()

    with pytest.raises(NotAStore, match=r"s3://missing.*no such bucket") as caught:
        await connect(url).open()

    assert time.monotonic() - started < 5
    assert "<" not in str(caught.value)
    assert caught.value.__cause__ is not None


async def test_a_bucket_that_vanishes_does_not_look_empty(service: Service) -> None:
    """Also a single object of it that is missing is told from a bucket that is."""
    gone = connect(service.url.replace("s3://holdfast/", "s3://missing/"))._bucket()  # type: ignore[attr-defined]
    asked = (
        gone.get("x"), gone.get_range("x", 0, 1), gone.put("x", b""), gone.create("x", b""),
        gone.delete(["x", "y"]), gone.listed("x"), gone.folders("x"),
    )  # fmt: skip

    answers = await asyncio.gather(*asked, return_exceptions=True)

    assert {type(answer) for answer in answers} == {NotAStore}
    there = connect(service.url)._bucket()  # type: ignore[attr-defined]
    assert await there.get("x") is None


async def test_wrong_credentials_are_not_shown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET_KEY}-but-wrong")

    with pytest.raises(StoreUnavailable, match="credentials") as caught:
        await connect(service.url).open()

    assert SECRET_KEY not in str(caught.value)


# Answers that are lost


async def test_a_write_whose_answer_is_lost_is_done_once(store: Store, proxy: Proxy) -> None:
    """L5: the connection is cut between the write and the answer, at each write once."""
    lost: set[str] = set()

    def once(request: str) -> bool:
        verb, _, path = request.partition(" ")
        if verb != "PUT" or path in lost:
            return False
        lost.add(path)
        return True

    proxy.loses = once
    commits = [
        await store.commit(KEY, [noted(number), put(f"{number}", when=0)], create=SetHeader())
        for number in range(5)
    ]
    lease = await store.acquire(KEY, "holder", ttl=10)
    again = await store.acquire(KEY, "other", ttl=10)

    assert len(lost) > 8
    assert [commit.seqs for commit in commits] == [(1,), (2,), (3,), (4,), (5,)]
    assert await data(store) == [b"0", b"1", b"2", b"3", b"4"]
    assert lease is not None
    assert again is None
    assert (await store.header(KEY)).lease == lease


async def test_a_commit_that_never_gets_an_answer_is_repeated_with_its_token(
    service: Service, store: Store, proxy: Proxy
) -> None:
    """L5"""
    await store.commit(KEY, [noted(0)], create=SetHeader())
    proxy.loses = lambda request: request.startswith("PUT")

    with pytest.raises(StoreUnavailable):
        await store.commit(KEY, [said("hello")], token="t-1")
    proxy.loses = lambda request: False
    commit = await store.commit(KEY, [said("hello")], token="t-1")

    assert commit.seqs == (2,)
    assert len(await data(store)) == 2


async def test_connections_that_were_dropped_are_made_again(store: Store, proxy: Proxy) -> None:
    """L19"""
    await store.commit(KEY, [noted(0)], create=SetHeader())
    for number in range(1, 4):
        await proxy.drop()
        await store.commit(KEY, [noted(number)])
        await proxy.drop()
        assert len(await data(store)) == number + 1


# A server that stops


@pytest.fixture(scope="module")
def fragile() -> Iterator[Seaweed]:
    server = Seaweed(durable=True)
    server.start()
    yield server
    server.stop()


async def test_a_server_that_does_not_answer_fails_a_commit_in_time(fragile: Seaweed) -> None:
    service = Service(fragile.endpoint)
    async with connect(service.url):
        pass
    async with connect(f"{service.url}&timeout=1") as store:
        await store.commit(KEY, [noted(0)], create=SetHeader())

        fragile.pause()
        started = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.commit(KEY, [noted(1)], token="t-1")
        waited = time.monotonic() - started
        fragile.resume()

        assert waited < 10
        again = await store.commit(KEY, [noted(1)], token="t-1")
        assert again.seqs == (2,)
        assert await data(store) == [b"0", b"1"]


async def test_what_was_acknowledged_survives_the_death_of_the_server(fragile: Seaweed) -> None:
    service = Service(fragile.endpoint)
    acknowledged: dict[bytes, Commit] = {}
    stop = asyncio.Event()

    async def write(store: Store, key: ConversationKey) -> None:
        number = 0
        while not stop.is_set():
            mark = f"{key.id} {number}"
            done = await store.commit(key, [Append("notice", mark.encode())], token=mark, create=SetHeader())
            acknowledged[mark.encode()] = done
            number += 1

    async with connect(service.url) as store, connect(service.url) as other:
        keys = [ConversationKey("ada", f"c-{number}") for number in range(3)]
        stores = (store, store, other)
        writing = [asyncio.create_task(write(*each)) for each in zip(stores, keys, strict=True)]
        while len(acknowledged) < 50:  # noqa: ASYNC110 (the writers know nothing of who waits)
            await asyncio.sleep(0.01)
        await asyncio.to_thread(fragile.kill)
        before = len(acknowledged)
        await asyncio.to_thread(fragile.start)
        async with asyncio.timeout(30):
            while len(acknowledged) < before + 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*writing)

        found = {event.data: event.seq for key in keys for event in await store.events(key)}
        ends = [(await other.header(key)).last_seq for key in keys]
    assert found == {mark: commit.seqs[0] for mark, commit in acknowledged.items()}
    assert len(found) == sum(ends)


# Several processes


async def test_of_processes_that_race_for_a_lease_and_an_answer_one_wins_each(service: Service) -> None:
    """L25, L34"""
    rounds = 5
    async with connect(service.url) as store:
        for number in range(rounds):
            await a_conversation(store, f"c-{number}", calls=[interrupted("call_1")])
        racers = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-P", str(RACERS), service.url, str(rounds),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )
            for _ in range(3)
        ]  # fmt: skip
        for racer in racers:
            assert racer.stdout is not None
            assert await racer.stdout.readline() == b"ready\n"
        outputs = await asyncio.gather(*(racer.communicate(b"go\n") for racer in racers))

        results = Counter(line for out, _ in outputs for line in out.decode().split("\n") if line)
        wins = [f"{what} c-{number}" for what in ("lease", "answer") for number in range(rounds)]
        assert {win: results[win] for win in wins} == dict.fromkeys(wins, 1)
        for number in range(rounds):
            key = ConversationKey("ada", f"c-{number}")
            [call], [event] = await store.calls(key), await store.events(key)
            assert (call.status, call.data) == ("completed", event.data)
