"""Processes that race, on any store that several of them can open."""

from __future__ import annotations

from holdfast.store import connect
from holdfast.testing.build import a_conversation, interrupted

from .racers import race


class RacingProcesses:
    """Whoever inherits it gives a fixture ``url``, of an empty store."""

    async def test_of_processes_that_race_for_a_lease_exactly_one_gets_it(self, url: str) -> None:
        """L34"""
        async with connect(url) as store:
            keys = [await a_conversation(store, f"c-{n}") for n in range(20)]

            won = race(3, "acquire", url, len(keys))

            assert sorted(number for each in won for number in each) == list(range(20))
            for number, key in enumerate(keys):
                lease = (await store.header(key)).lease
                assert lease is not None
                assert number in won[int(lease.holder)]

    async def test_of_processes_that_race_to_answer_a_call_exactly_one_wins(self, url: str) -> None:
        """L25"""
        async with connect(url) as store:
            keys = [await a_conversation(store, f"c-{n}", calls=[interrupted("call_1")]) for n in range(20)]

            won = race(3, "resolve", url, len(keys))

            assert sorted(number for each in won for number in each) == list(range(20))
            for number, key in enumerate(keys):
                [call], [event] = await store.calls(key), await store.events(key)
                assert (call.status, call.data) == ("completed", event.data)
                assert number in won[int(event.data)]
