"""
What the time of an append is spent on: ``python -m benchmarks.breakdown``.

Parts that can be had alone are measured alone; what a sync costs is the difference between the
same appends with ``durability=disk`` and ``durability=os``. Rounds take turns, medians count.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec

from benchmarks.environment import HERE
from benchmarks.messages import Message, make_messages
from holdfast.store import Append, ConversationKey, SetHeader, connect
from holdfast.store.change import Change

_ROUNDS = 5
_APPENDS = 1000
_WRITERS = 64
_KEY = ConversationKey("owner-0", "c0")

_encode = msgspec.json.Encoder().encode


def _event(message: Message, *, searchable: bool) -> Append:
    return Append("message", _encode(message), text=message["content"] if searchable else None)


def _building(messages: Sequence[Message]) -> float:
    """Encoding, checking and folding a commit, on the event loop."""
    times = []
    for message in messages:
        start = perf_counter()
        Change.of(_KEY, [_event(message, searchable=True)])
        times.append(perf_counter() - start)
    return statistics.median(times)


async def _hop(count: int) -> float:
    """To a thread and back with nothing to do there."""
    loop = asyncio.get_running_loop()
    waiting: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()

    def answer() -> None:
        while (future := waiting.get()) is not None:
            loop.call_soon_threadsafe(future.set_result, None)

    thread = threading.Thread(target=answer)
    thread.start()
    times = []
    for _ in range(count):
        start = perf_counter()
        future: asyncio.Future[None] = loop.create_future()
        waiting.put(future)
        await future
        times.append(perf_counter() - start)
    waiting.put(None)
    thread.join()
    return statistics.median(times)


async def _alone(directory: Path, messages: Sequence[Message], durability: str) -> tuple[float, float]:
    """Seconds of an append (median), and of indexing one event's text."""
    async with connect(f"sqlite:///{directory}/alone.db?durability={durability}") as store:
        await store.commit(_KEY, [], create=SetHeader())
        times = []
        for message in messages:
            start = perf_counter()
            await store.commit(_KEY, [_event(message, searchable=False)])
            times.append(perf_counter() - start)
        ops = [_event(message, searchable=True) for message in messages]
        await store.commit(_KEY, ops)
        start = perf_counter()
        await store.settle()
        return statistics.median(times), (perf_counter() - start) / len(messages)


async def _at_once(directory: Path, messages: Sequence[Message]) -> tuple[float, float, float]:
    """Seconds an append among 64 at once: by the clock, on the loop's CPU, on other threads' CPU."""
    keys = [ConversationKey("owner-0", f"c{n}") for n in range(_WRITERS)]
    each = len(messages) // _WRITERS
    async with connect(f"sqlite:///{directory}/at-once.db") as store:
        for key in keys:
            await store.commit(key, [], create=SetHeader())

        async def write(n: int) -> None:
            for message in messages[n * each : (n + 1) * each]:
                await store.commit(keys[n], [_event(message, searchable=False)])

        wall, loop, process = perf_counter(), time.thread_time(), time.process_time()
        await asyncio.gather(*(write(n) for n in range(_WRITERS)))
        wall, loop = perf_counter() - wall, time.thread_time() - loop
        others = time.process_time() - process - loop
    count = each * _WRITERS
    return wall / count, loop / count, others / count


def _raw(directory: Path, messages: Sequence[Message], synchronous: str) -> float:
    """One JSON row a transaction, with the bare driver."""
    with closing(sqlite3.connect(directory / "raw.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("CREATE TABLE message (seq INTEGER PRIMARY KEY, conversation TEXT, data TEXT)")
        times = []
        for message in messages:
            start = perf_counter()
            connection.execute(
                "INSERT INTO message (conversation, data) VALUES ('c0', ?)", (json.dumps(message),)
            )
            times.append(perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    messages = make_messages(_APPENDS)
    rounds: list[dict[str, float]] = []
    (HERE / "data").mkdir(exist_ok=True)
    for _ in range(_ROUNDS):
        with TemporaryDirectory(dir=HERE / "data") as scratch:
            places = [Path(scratch) / name for name in ("disk", "os", "full", "normal", "many")]
            for place in places:
                place.mkdir()
            disk, os, full, normal, many = places
            synced, _ = asyncio.run(_alone(disk, messages, "disk"))
            unsynced, indexing = asyncio.run(_alone(os, messages, "os"))
            wall, loop, others = asyncio.run(_at_once(many, messages * 4))
            rounds.append(
                {
                    "building the commit": (building := _building(messages)),
                    "a hop to the writer and back": (hop := asyncio.run(_hop(_APPENDS))),
                    "statements, in the writer": unsynced - building - hop,
                    "the sync": synced - unsynced,
                    "**an append alone**": synced,
                    "later: indexing its text": indexing,
                    "the bare driver: statement": (statement := _raw(normal, messages, "NORMAL")),
                    "the bare driver: sync": _raw(full, messages, "FULL") - statement,
                    "64 at once: an append by the clock": wall,
                    "64 at once: CPU of the event loop": loop,
                    "64 at once: CPU of the writer": others,
                }
            )
    print("| part | µs |\n| --- | ---: |")
    for part in rounds[0]:
        print(f"| {part} | {statistics.median(each[part] for each in rounds) * 1e6:.0f} |")


if __name__ == "__main__":
    main()
