"""The observer: called without await, in order, and nothing is lost that was flushed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
from holdfast.conversations import Conversation
from holdfast.errors import BufferFull, InvalidInput, StoreUnavailable
from holdfast.model import Message, Text
from holdfast.observing import Observer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def conversation() -> AsyncIterator[Conversation]:
    async with holdfast.connect("memory://") as hub:
        yield await hub.open("user-1", "trip")


def said(number: int) -> Message:
    return Message(f"m{number}", "user", (Text(f"message {number}"),))


def order(conversation: Conversation) -> list[str]:
    return [turn.id for turn in conversation.transcript() if isinstance(turn, Message)]


async def test_items_are_appended_in_order_and_all_of_them(conversation: Conversation) -> None:
    """K1"""
    async with Observer(conversation.append) as observe:
        for number in range(200):
            observe(said(number))
        await observe.flush()
        assert conversation.seq == 200
        observe(said(200))

    assert order(conversation) == [f"m{number}" for number in range(201)]


async def test_calls_from_other_threads_wait_for_room(conversation: Conversation) -> None:
    async with Observer(conversation.append, buffer=3) as observe:

        def run(first: int) -> None:
            for number in range(first, first + 100):
                observe(said(number))

        await asyncio.gather(*(asyncio.to_thread(run, first) for first in (0, 1000)))

    numbers = [int(id[1:]) for id in order(conversation)]
    for first in (0, 1000):
        assert [n for n in numbers if first <= n < first + 500] == list(range(first, first + 100))


async def test_the_loops_own_thread_is_told_when_the_buffer_is_full(conversation: Conversation) -> None:
    async with Observer(conversation.append, buffer=2) as observe:
        observe(said(1))
        observe(said(2))
        with pytest.raises(BufferFull, match="2 items"):
            observe(said(3))
        await observe.flush()
        observe(said(3))

    assert order(conversation) == ["m1", "m2", "m3"]


async def test_what_can_not_be_appended_is_told_and_what_came_before_it_is_kept(
    conversation: Conversation,
) -> None:
    async def use() -> None:
        async with Observer(conversation.append) as observe:
            found.append(observe)
            observe(said(1))
            observe(object())
            observe(said(2))
            with pytest.raises(InvalidInput):
                await observe.flush()
            with pytest.raises(InvalidInput):
                observe(said(3))

    found: list[Observer] = []
    with pytest.raises(InvalidInput):
        await use()

    assert order(conversation) == ["m1"]
    [observer] = found
    assert observer.unsaved[1:] == (said(2),)


async def test_a_store_that_fails_is_not_tried_again_behind_the_hosts_back() -> None:
    """L5: the items may be there, so appending them one by one could double them."""
    calls: list[tuple[object, ...]] = []

    async def append(*items: object) -> None:
        calls.append(items)
        raise StoreUnavailable("gone")

    async def use() -> None:
        async with Observer(append) as observe:
            observe(1)
            observe(2)

    with pytest.raises(StoreUnavailable):
        await use()

    assert calls == [(1, 2)]


async def test_an_observer_is_used_inside_its_block(conversation: Conversation) -> None:
    observe = Observer(conversation.append)
    with pytest.raises(InvalidInput):
        observe(said(1))
    async with observe:
        pass
    with pytest.raises(InvalidInput):
        observe(said(1))
    with pytest.raises(InvalidInput):
        Observer(conversation.append, buffer=0)


async def test_a_thread_that_waits_for_room_is_freed_when_the_observer_fails() -> None:
    release = asyncio.Event()

    async def append(*items: object) -> None:
        await release.wait()
        raise StoreUnavailable("gone")

    async def use() -> None:
        async with Observer(append, buffer=1) as observe:

            def fill() -> None:
                observe(1)
                started.set()
                observe(2)

            filling = asyncio.create_task(asyncio.to_thread(fill))
            await asyncio.to_thread(started.wait)
            release.set()
            with pytest.raises(StoreUnavailable):
                await filling

    started = threading.Event()
    with pytest.raises(StoreUnavailable):
        await use()


KILLED = """
import asyncio, os, signal, sys
import holdfast
from holdfast.observing import Observer

async def main():
    async with holdfast.connect(sys.argv[1]) as hub:
        conversation = await hub.open("user-1", "trip")
        async with Observer(conversation.append) as observe:
            for number in range(20):
                observe(f"flushed {number}")
            await observe.flush()
            print("flushed", flush=True)
            for number in range(20):
                observe(f"tail {number}")
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_kill_loses_no_more_than_what_was_not_flushed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), url]
    killed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert (killed.stdout, killed.returncode) == ("flushed\n", -9)

    async with holdfast.connect(url) as hub:
        turns = (await hub.open("user-1", "trip")).transcript()
        texts = [turn.text for turn in turns if isinstance(turn, Message)]

    assert texts[:20] == [f"flushed {number}" for number in range(20)]
    assert texts[20:] == [f"tail {number}" for number in range(len(texts) - 20)]
