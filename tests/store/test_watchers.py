"""Watchers: hints are merged, signals are not, and who does not keep up loses only signals."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.model.records import Notice
from holdfast.store.watchers import MAX_SIGNALS, Watchers
from holdfast.testing.build import a_key

pytestmark = pytest.mark.anyio

LEFT, RIGHT = a_key("left"), a_key("right")


async def test_hints_of_one_conversation_are_merged() -> None:
    watchers = Watchers()

    async with watchers.watch(None) as notices:
        for _ in range(5):
            watchers.changed([LEFT, RIGHT])

        assert [await anext(notices), await anext(notices)] == [Notice(LEFT), Notice(RIGHT)]
        watchers.changed([RIGHT])
        assert await anext(notices) == Notice(RIGHT)


async def test_who_watches_some_conversations_hears_of_no_other() -> None:
    watchers = Watchers()

    async with watchers.watch(frozenset((RIGHT,))) as notices:
        watchers.changed([LEFT])
        watchers.signal(LEFT, b"left")
        watchers.changed([RIGHT])

        assert await anext(notices) == Notice(RIGHT)


async def test_a_change_that_can_not_be_named_is_for_those_who_watch_all() -> None:
    watchers = Watchers()

    async with watchers.watch(None) as notices:
        watchers.changed([None])

        assert await anext(notices) == Notice(None)


async def test_every_signal_arrives_in_order() -> None:
    watchers = Watchers()

    async with watchers.watch(frozenset((LEFT,))) as notices:
        for number in range(5):
            watchers.signal(LEFT, b"%d" % number)

        assert [await anext(notices) for _ in range(5)] == [Notice(LEFT, b"%d" % n) for n in range(5)]


async def test_who_does_not_keep_up_loses_the_oldest_signals_and_no_hint() -> None:
    watchers = Watchers()

    async with watchers.watch(None) as notices:
        watchers.changed([LEFT])
        for number in range(MAX_SIGNALS + 10):
            watchers.signal(RIGHT, b"%d" % number)

        heard = [await anext(notices) for _ in range(MAX_SIGNALS + 1)]
        signals = [notice.payload for notice in heard if notice.payload is not None]
        assert signals == [b"%d" % n for n in range(10, MAX_SIGNALS + 10)]
        assert Notice(LEFT) in heard


async def test_who_waits_is_woken() -> None:
    watchers = Watchers()

    async with watchers.watch(None) as notices:
        waiting = asyncio.ensure_future(anext(notices))
        await asyncio.sleep(0)
        watchers.changed([LEFT])

        assert await asyncio.wait_for(waiting, 5) == Notice(LEFT)


async def test_every_watch_has_its_own_notices() -> None:
    watchers = Watchers()

    async with watchers.watch(None) as first, watchers.watch(frozenset((LEFT,))) as second:
        watchers.changed([LEFT])

        assert await anext(first) == await anext(second) == Notice(LEFT)


async def test_it_is_known_who_watches_what() -> None:
    watchers = Watchers()
    assert not watchers

    async with watchers.watch(frozenset((LEFT,))):
        assert watchers
        assert (watchers.keys, watchers.any) == ({LEFT}, False)
        async with watchers.watch(frozenset((LEFT, RIGHT))), watchers.watch(None):
            assert (watchers.keys, watchers.any) == ({LEFT, RIGHT}, True)

    assert not watchers
    assert (watchers.keys, watchers.any) == (set(), False)


async def test_a_watch_that_was_left_by_an_error_is_gone() -> None:
    watchers = Watchers()

    with pytest.raises(RuntimeError):
        async with watchers.watch(None):
            raise RuntimeError

    assert not watchers


async def test_the_end_comes_after_what_was_noticed_before() -> None:
    watchers = Watchers()

    async with watchers.watch(None) as notices:
        watchers.changed([LEFT])
        watchers.close()

        assert [notice async for notice in notices] == [Notice(LEFT)]


async def test_the_end_wakes_who_waits() -> None:
    watchers = Watchers()

    async with watchers.watch(None) as notices:
        waiting = asyncio.ensure_future(anext(notices, None))
        await asyncio.sleep(0)
        watchers.close()

        assert await asyncio.wait_for(waiting, 5) is None
