"""Expiries: a timer lives in the store, whoever set it."""

from __future__ import annotations

import pytest

from holdfast.errors import StaleCall
from holdfast.model.records import CallStatus
from holdfast.store import MoveCall, Store
from holdfast.testing.build import a_conversation, answered, cancelled, expired, interrupted, pending, started
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic
from holdfast.testing.kit import StoreKit


def rescheduled(call_id: str, expires_in: float | None) -> MoveCall:
    return MoveCall(call_id, "interrupted", frozenset(("interrupted",)), expires_in=expires_in)


class ExpiryRules(Topic):
    async def test_a_call_is_due_from_its_expiry_on_and_not_before(
        self, store: Store, clock: FakeClock
    ) -> None:
        await a_conversation(store, calls=[interrupted("call_1", expires_in=10), interrupted("for ever")])

        clock.advance(seconds=9.999999)
        assert await store.due() == []
        clock.advance(seconds=0.000001)

        assert [call.call_id for call in await store.due()] == ["call_1"]

    async def test_an_expiry_of_no_time_has_passed_at_once(self, store: Store) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=0)])

        assert [call.call_id for call in await store.due()] == ["call_1"]
        with pytest.raises(StaleCall):
            await store.commit(key, [answered("call_1")])
        await store.commit(key, [expired("call_1")])

    async def test_an_expiry_fires_once(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=10)])
        clock.advance(seconds=10)

        [due] = await store.due()
        await store.commit(due.key, [expired(due.call_id)])
        with pytest.raises(StaleCall):
            await store.commit(due.key, [expired(due.call_id)])

        [call] = await store.calls(key)
        assert (call.status, call.expires_at) == ("expired", None)
        assert await store.due() == []

    async def test_an_expiry_fires_although_the_process_that_set_it_is_gone(
        self, kit: StoreKit, clock: FakeClock
    ) -> None:
        """L29: a timer lives in the store."""
        async with kit.open(clock=clock) as first, kit.open(clock=clock) as second:
            await a_conversation(first, calls=[interrupted("call_1", expires_in=10)])
            await first.close()
            clock.advance(seconds=10)

            [due] = await second.due()
            await second.commit(due.key, [expired("call_1")])

            assert [call.status for call in await second.calls(due.key)] == ["expired"]

    async def test_a_call_that_executes_can_expire(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, calls=[pending("call_1")])
        await store.commit(key, [started("call_1", expires_in=10)])
        clock.advance(seconds=10)

        assert [call.call_id for call in await store.due()] == ["call_1"]
        await store.commit(key, [expired("call_1")])

        assert [call.status for call in await store.calls(key)] == ["expired"]

    async def test_due_calls_of_all_owners_come_longest_first(self, store: Store, clock: FakeClock) -> None:
        await a_conversation(store, "c-1", "eve", calls=[interrupted("third", expires_in=30)])
        await a_conversation(store, "c-2", "ada", calls=[interrupted("first", expires_in=10)])
        await a_conversation(store, "c-3", "bob", calls=[interrupted("second", expires_in=20)])
        await a_conversation(store, "c-4", "bob", calls=[interrupted("not yet", expires_in=40)])
        clock.advance(seconds=30)

        assert [call.call_id for call in await store.due()] == ["first", "second", "third"]
        assert [call.call_id for call in await store.due(limit=2)] == ["first", "second"]

    @pytest.mark.parametrize("to", ["completed", "failed", "pending", "executing", "interrupted"])
    async def test_an_answer_past_the_expiry_is_stale_even_if_no_sweeper_ran(
        self, store: Store, clock: FakeClock, to: CallStatus
    ) -> None:
        """L25: an answer after expiry loses."""
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=10)])
        clock.advance(seconds=10)

        with pytest.raises(StaleCall):
            await store.commit(key, [MoveCall("call_1", to, frozenset(("interrupted",)))])

        assert [call.status for call in await store.calls(key)] == ["interrupted"]
        assert len(await store.due()) == 1

    async def test_an_answer_just_before_the_expiry_wins(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=10)])
        clock.advance(seconds=9.999999)

        await store.commit(key, [answered("call_1")])

        clock.advance(seconds=10)
        assert [(c.status, c.expires_at) for c in await store.calls(key)] == [("completed", None)]
        assert await store.due() == []

    async def test_a_call_can_not_expire_before_its_time(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(
            store, calls=[interrupted("call_1", expires_in=10), interrupted("for ever")]
        )
        clock.advance(seconds=9.999999)

        for call_id in ("call_1", "for ever"):
            with pytest.raises(StaleCall):
                await store.commit(key, [expired(call_id)])

        assert {call.status for call in await store.calls(key)} == {"interrupted"}

    @pytest.mark.parametrize("after", [1, 10, 100])
    async def test_a_cancel_stops_an_expiry_also_when_it_is_late(
        self, store: Store, clock: FakeClock, after: float
    ) -> None:
        """L25: an answer after a cancel loses."""
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=10)])
        clock.advance(seconds=after)

        await store.commit(key, [cancelled("call_1")])

        clock.advance(seconds=1000)
        assert await store.due() == []
        for late in (answered("call_1"), expired("call_1")):
            with pytest.raises(StaleCall):
                await store.commit(key, [late])
        assert [(c.status, c.expires_at) for c in await store.calls(key)] == [("cancelled", None)]

    @pytest.mark.parametrize("expires_in", [5, 50])
    async def test_rescheduling_replaces_the_expiry(
        self, store: Store, clock: FakeClock, expires_in: float
    ) -> None:
        """L29: rescheduling replaces the old one."""
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=20)])
        clock.advance(seconds=1)

        await store.commit(key, [rescheduled("call_1", expires_in)])

        [call] = await store.calls(key)
        assert (call.expires_at, call.step) == (clock() + int(expires_in * 1_000_000), 1)
        clock.advance(seconds=expires_in - 0.000001)
        assert await store.due() == []
        clock.advance(seconds=0.000001)
        assert await store.due() == [call]

    async def test_a_move_without_an_expiry_clears_it(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=10)])

        await store.commit(key, [rescheduled("call_1", None)])

        clock.advance(seconds=1000)
        assert [call.expires_at for call in await store.calls(key)] == [None]
        assert await store.due() == []
        await store.commit(key, [answered("call_1")])

    async def test_a_sweeper_that_was_overtaken_by_a_new_expiry_loses(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        """L29: the old timer does not fire for the new one."""
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=10)])
        clock.advance(seconds=10)
        [due] = await other.due()
        clock.advance(seconds=-1)
        await store.commit(key, [rescheduled("call_1", 100)])
        clock.advance(seconds=1)

        with pytest.raises(StaleCall):
            await other.commit(due.key, [expired(due.call_id)])

        assert [call.status for call in await store.calls(key)] == ["interrupted"]
