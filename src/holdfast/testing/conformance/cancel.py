"""Cancellation: whoever stops waiting leaves a commit whole, and the store as usable as before."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.model.records import Commit
from holdfast.store import Op, SetHeader, Store, Tag, Wake
from holdfast.testing.build import a_conversation, a_key, interrupted, noted, put, said
from holdfast.testing.conformance.topic import Topic

MOMENTS = (0, 1, 2, 3, 5, 8, 13)
"""Turns of the event loop after which a task is cancelled."""


def _ops(number: int) -> list[Op]:
    return [
        noted(number),
        said(f"hello {number}"),
        put(f"{number}"),
        interrupted(f"{number}"),
        Tag("n", f"{number}"),
        SetHeader(title=f"{number}"),
    ]


async def _parts(store: Store, number: int) -> set[int]:
    """How many there are of each thing that the commit of this number writes."""
    events = await store.events(a_key())
    return {
        sum(event.data == b"%d" % number for event in events),
        sum(event.data == b'{"text": "hello %d"}' % number for event in events),
        len(await store.records(a_key(), "notes", keys=[f"{number}"])),
        len(await store.calls(a_key(), call_ids=[f"{number}"])),
        len(await store.find("ada", "n", f"{number}")),
    }


async def _cancel(task: asyncio.Task[Commit], *, turns: int) -> Commit | None:
    """Cancel after that many turns of the event loop; the commit if it was quicker."""
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, Commit):
        return outcome
    assert isinstance(outcome, asyncio.CancelledError)
    return None


class CancelRules(Topic):
    @pytest.mark.parametrize("turns", MOMENTS)
    async def test_a_cancelled_commit_is_there_whole_or_not_at_all(
        self, store: Store, other: Store, turns: int
    ) -> None:
        """L20"""
        await a_conversation(store)

        commit = await _cancel(asyncio.create_task(store.commit(a_key(), _ops(1))), turns=turns)
        after = await store.commit(a_key(), _ops(2))

        assert await _parts(store, 1) in ({0}, {1})
        assert await _parts(store, 2) == {1}
        if commit is not None:
            assert await _parts(other, 1) == {1}
        events = await other.events(a_key())
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert after.last_seq == len(events) == (await store.header(a_key())).last_seq

    @pytest.mark.parametrize("turns", MOMENTS)
    async def test_a_cancelled_commit_is_repeated_safely(self, store: Store, turns: int) -> None:
        """L20"""
        await a_conversation(store)

        first = await _cancel(asyncio.create_task(store.commit(a_key(), _ops(1), token="t-1")), turns=turns)
        again = await store.commit(a_key(), _ops(1), token="t-1")

        assert first in (None, again)
        assert await _parts(store, 1) == {1}
        assert len(await store.events(a_key())) == 2

    @pytest.mark.parametrize("turns", MOMENTS)
    async def test_a_cancelled_creation_is_there_whole_or_not_at_all(self, store: Store, turns: int) -> None:
        """L20"""
        creating = asyncio.create_task(
            store.commit(a_key(), _ops(1), create=SetHeader(title="x"), token="t-1")
        )

        await _cancel(creating, turns=turns)
        await store.commit(a_key("after"), [], create=SetHeader())

        headers = {header.key.id: header for header in await store.headers("ada")}
        if "c-1" in headers:
            assert await _parts(store, 1) == {1}
            assert headers["c-1"].last_seq == 2
        else:
            assert await store.find("ada", "n", "1") == []
        await store.commit(a_key(), _ops(1), create=SetHeader(), token="t-1")
        assert await _parts(store, 1) == {1}

    async def test_cancelling_one_of_many_leaves_the_others(self, store: Store) -> None:
        """L20: a cancelled waiter does not cancel those who are written together with it."""
        await a_conversation(store)
        writing = [asyncio.create_task(store.commit(a_key(), _ops(n))) for n in range(40)]

        await asyncio.sleep(0)
        for task in writing[::4]:
            task.cancel()
        outcomes = await asyncio.gather(*writing, return_exceptions=True)

        for number, outcome in enumerate(outcomes):
            if number % 4:
                assert isinstance(outcome, Commit)
            expected = ({1},) if isinstance(outcome, Commit) else ({0}, {1})
            assert await _parts(store, number) in expected
        events = await store.events(a_key())
        assert [event.seq for event in events] == list(range(1, len(events) + 1))

    @pytest.mark.parametrize("turns", [0, 1, 2, 5])
    async def test_cancelled_reads_and_leases_leave_the_store_usable(self, store: Store, turns: int) -> None:
        """L20"""
        key = await a_conversation(store, says=["hello"], ops=[Wake()])
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(coroutine)
            for coroutine in (
                store.header(key),
                store.load(key),
                store.events(key),
                store.calls(key),
                store.records(key, "notes"),
                store.headers("ada"),
                store.search("ada", "hello"),
                store.due(),
                store.acquire(key, "holder", ttl=1),
                store.claim("holder", ttl=1),
                store.fork(key, "fork"),
                store.settle(),
                store.scrub(),
            )
        ]

        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        for outcome in outcomes:
            assert not isinstance(outcome, Exception), outcome
        commit = await store.commit(key, [noted(2)])
        assert commit.seqs == (2,)
        assert len(await store.events(key)) == 2

    @pytest.mark.parametrize("turns", [0, 1, 3, 8])
    async def test_a_cancelled_delete_goes_on_when_called_again(self, store: Store, turns: int) -> None:
        """L20"""
        key = await a_conversation(store, ops=[noted(n) for n in range(500)])
        deleting = asyncio.create_task(store.delete(key))
        for _ in range(turns):
            await asyncio.sleep(0)
        deleting.cancel()
        await asyncio.gather(deleting, return_exceptions=True)

        await store.delete(key)

        assert await store.headers("ada") == []
        assert (await store.commit(key, [noted(1)], create=SetHeader(when=0))).seqs == (1,)
        assert len(await store.events(key)) == 1
