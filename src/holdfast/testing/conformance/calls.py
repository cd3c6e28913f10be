"""Tool calls: opening them, every move they can make, and finding those that are open."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidOp, StaleCall
from holdfast.model.records import MOVES, OPEN, CallStatus
from holdfast.store import MoveCall, OpenCall, Store
from holdfast.testing.build import a_call, a_conversation, answered, interrupted, pending, started
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic

_STATUSES: tuple[CallStatus, ...] = (
    "pending",
    "executing",
    "interrupted",
    "detached",
    "completed",
    "failed",
    "cancelled",
)


class CallRules(Topic):
    async def test_a_call_is_opened_with_all_it_was_given(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store)

        await store.commit(
            key, [OpenCall("call_1", "book_flight", "interrupted", "client", b"\x00\xffargs", expires_in=2.5)]
        )

        [call] = await store.calls(key)
        assert (call.key, call.call_id, call.name) == (key, "call_1", "book_flight")
        assert (call.status, call.executor, call.data) == ("interrupted", "client", b"\x00\xffargs")
        assert (call.opened_at, call.expires_at) == (clock(), clock() + 2_500_000)

    @pytest.mark.parametrize(("status", "step"), [("pending", 0), ("interrupted", 1), ("completed", 0)])
    async def test_a_call_opened_as_interrupted_waits_for_the_first_time(
        self, store: Store, status: CallStatus, step: int
    ) -> None:
        key = await a_conversation(store)

        await store.commit(key, [OpenCall("call_1", "book_flight", status)])

        [call] = await store.calls(key)
        assert (call.status, call.step, call.expires_at) == (status, step, None)

    async def test_calls_come_in_the_order_they_were_opened(self, store: Store, clock: FakeClock) -> None:
        """L1: also if the clock goes back."""
        key = await a_conversation(store, calls=[pending("z"), pending("a")])
        clock.advance(seconds=-100)
        await store.commit(key, [pending("m"), pending("b")])

        await store.commit(key, [started("z")])

        assert [call.call_id for call in await store.calls(key)] == ["z", "a", "m", "b"]

    async def test_calls_are_filtered_by_status_and_id(self, store: Store) -> None:
        key = await a_conversation(store)
        for status in _STATUSES:
            await a_call(store, key, status)

        async def found(
            status: list[CallStatus] | None = None, call_ids: list[str] | None = None
        ) -> list[str]:
            return [call.call_id for call in await store.calls(key, status=status, call_ids=call_ids)]

        assert await found() == list(_STATUSES)
        assert await found(["failed", "pending"]) == ["pending", "failed"]
        assert await found(["expired"]) == []
        assert await found(None, ["failed", "missing", "pending"]) == ["pending", "failed"]
        assert await found(["failed"], ["failed", "pending"]) == ["failed"]
        assert await found([]) == []
        assert await found(None, []) == []

    async def test_the_same_call_id_in_two_conversations_is_two_calls(self, store: Store) -> None:
        """L15: a provider's tool call id is not unique across conversations."""
        left = await a_conversation(store, "left", calls=[interrupted("call_1")])
        right = await a_conversation(store, "right", calls=[interrupted("call_1")])
        elsewhere = await a_conversation(store, "left", "eve", calls=[interrupted("call_1")])

        await store.commit(left, [answered("call_1", by=b"yes")])

        assert [(c.status, c.data) for c in await store.calls(left)] == [("completed", b"yes")]
        assert [(c.status, c.data) for c in await store.calls(right)] == [("interrupted", b"")]
        assert [(c.status, c.data) for c in await store.calls(elsewhere)] == [("interrupted", b"")]

    @pytest.mark.parametrize("status", _STATUSES)
    async def test_a_call_id_is_opened_once_for_ever(self, store: Store, status: CallStatus) -> None:
        """L15: a provider may give one id twice within a conversation."""
        key = await a_conversation(store)
        await a_call(store, key, status, "call_1")
        before = await store.calls(key)

        with pytest.raises(StaleCall) as caught:
            await store.commit(key, [OpenCall("call_1", "another_tool")])

        assert (caught.value.key, caught.value.call_id) == (key, "call_1")
        assert await store.calls(key) == before

    async def test_an_unknown_call_is_stale(self, store: Store) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1")])

        with pytest.raises(StaleCall) as caught:
            await store.commit(key, [answered("call_2")])

        assert (caught.value.key, caught.value.call_id) == (key, "call_2")

    @pytest.mark.parametrize("origin", sorted(OPEN))
    async def test_every_move_from_the_status_it_names_wins(self, store: Store, origin: CallStatus) -> None:
        key = await a_conversation(store)

        for to in sorted(MOVES[origin] - {"expired"}):
            call_id = await a_call(store, key, origin, f"to {to}")
            await store.commit(key, [MoveCall(call_id, to, frozenset((origin,)))])

            [call] = await store.calls(key, call_ids=[call_id])
            assert call.status == to

    @pytest.mark.parametrize("actual", _STATUSES)
    async def test_every_move_from_another_status_is_stale(self, store: Store, actual: CallStatus) -> None:
        """L25: answers to a call that moved on change nothing."""
        key = await a_conversation(store)
        call_id = await a_call(store, key, actual)
        before = await store.calls(key)

        for origin in sorted(MOVES.keys() - {actual}):
            for to in sorted(MOVES[origin]):
                with pytest.raises(StaleCall):
                    await store.commit(key, [MoveCall(call_id, to, frozenset((origin,)))])

        assert await store.calls(key) == before

    async def test_a_move_may_name_several_statuses(self, store: Store) -> None:
        key = await a_conversation(store)
        either: frozenset[CallStatus] = frozenset(("pending", "interrupted"))
        for status in ("pending", "interrupted", "executing"):
            await a_call(store, key, status)

        await store.commit(
            key, [MoveCall("pending", "failed", either), MoveCall("interrupted", "failed", either)]
        )
        with pytest.raises(StaleCall):
            await store.commit(key, [MoveCall("executing", "failed", either)])

        assert [call.status for call in await store.calls(key)] == ["failed", "failed", "executing"]

    async def test_of_two_answers_only_the_first_counts(self, store: Store, other: Store) -> None:
        """L25: a double click, two tabs."""
        key = await a_conversation(store, calls=[interrupted("call_1")])

        await store.commit(key, [answered("call_1", by=b"first")])
        with pytest.raises(StaleCall):
            await other.commit(key, [answered("call_1", by=b"second")])

        [call] = await store.calls(key)
        assert (call.status, call.data) == ("completed", b"first")

    async def test_an_answer_names_the_step_it_answers(self, store: Store) -> None:
        """L25: an answer to an older question is stale."""
        key = await a_conversation(store, calls=[interrupted("call_1")])
        await store.commit(key, [MoveCall("call_1", "executing", frozenset(("interrupted",)))])
        await store.commit(key, [MoveCall("call_1", "interrupted", frozenset(("executing",)))])

        for wrong in (0, 1, 3):
            with pytest.raises(StaleCall):
                await store.commit(key, [answered("call_1", step=wrong)])
        await store.commit(key, [answered("call_1", step=2)])

        [call] = await store.calls(key)
        assert (call.status, call.step) == ("completed", 2)

    async def test_the_step_counts_how_often_a_call_began_to_wait(self, store: Store) -> None:
        key = await a_conversation(store, calls=[pending("call_1")])
        moves: list[tuple[CallStatus, CallStatus, int]] = [
            ("pending", "interrupted", 1),
            ("interrupted", "interrupted", 1),
            ("interrupted", "pending", 1),
            ("pending", "interrupted", 2),
            ("interrupted", "executing", 2),
            ("executing", "interrupted", 3),
            ("interrupted", "completed", 3),
        ]

        for origin, to, step in moves:
            await store.commit(key, [MoveCall("call_1", to, frozenset((origin,)))])

            [call] = await store.calls(key)
            assert (call.status, call.step) == (to, step)

    async def test_a_move_without_data_leaves_the_data(self, store: Store) -> None:
        key = await a_conversation(
            store, calls=[pending("kept", data=b"args"), pending("cleared", data=b"args")]
        )

        await store.commit(
            key,
            [
                MoveCall("kept", "executing", frozenset(("pending",)), data=None),
                MoveCall("cleared", "executing", frozenset(("pending",)), data=b""),
            ],
        )

        assert [call.data for call in await store.calls(key)] == [b"args", b""]

    async def test_a_move_leaves_all_but_status_step_data_and_expiry(
        self, store: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1", expires_in=60)])
        [before] = await store.calls(key)
        clock.advance(seconds=1)

        await store.commit(key, [answered("call_1", by=b"yes")])

        [after] = await store.calls(key)
        assert (after.key, after.call_id, after.name) == (before.key, before.call_id, before.name)
        assert (after.executor, after.opened_at) == (before.executor, before.opened_at)
        assert after.expires_at is None

    async def test_a_call_is_changed_at_most_once_in_a_commit(self, store: Store) -> None:
        key = await a_conversation(store, calls=[pending("call_1")])
        finish = MoveCall("call_1", "completed", frozenset(("executing",)))

        with pytest.raises(InvalidOp):
            await store.commit(key, [started("call_1"), finish])
        with pytest.raises(InvalidOp):
            await store.commit(key, [pending("call_2"), started("call_2")])

        assert [(c.call_id, c.status) for c in await store.calls(key)] == [("call_1", "pending")]

    async def test_open_calls_of_an_owner_come_oldest_first(self, store: Store, clock: FakeClock) -> None:
        ids = ["b", "c", "a"]
        for id in ids:
            key = await a_conversation(store, id)
            for status in _STATUSES:
                await a_call(store, key, status)
            clock.advance(seconds=1)
        await a_conversation(store, "x", "eve", calls=[interrupted("call_1")])

        calls = await store.open_calls("ada")

        assert [c.opened_at for c in calls] == sorted(c.opened_at for c in calls)
        assert list(dict.fromkeys(call.key.id for call in calls)) == ids
        assert {(c.key.id, c.status) for c in calls} == {(id, status) for id in ids for status in OPEN}
        assert [c for key in calls for c in await store.calls(key.key, call_ids=[key.call_id])] == calls

    async def test_open_calls_are_filtered_by_status_and_limited_to_the_oldest(
        self, store: Store, clock: FakeClock
    ) -> None:
        for id in ("a", "b", "c"):
            await a_conversation(store, id, calls=[interrupted("wait"), pending("run")])
            clock.advance(seconds=1)

        waiting = await store.open_calls("ada", status=["interrupted"], limit=2)

        assert [(c.key.id, c.call_id) for c in waiting] == [("a", "wait"), ("b", "wait")]
        assert await store.open_calls("ada", status=["detached"]) == []
        assert await store.open_calls("ada", status=[]) == []

    async def test_a_call_that_is_final_is_open_nowhere(self, store: Store) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1")])
        assert len(await store.open_calls("ada")) == 1

        await store.commit(key, [answered("call_1")])

        assert await store.open_calls("ada") == []
        assert (await store.load(key)).calls == []

    @pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "expired"])
    async def test_final_calls_are_found_by_conversation_only(self, store: Store, status: CallStatus) -> None:
        with pytest.raises(InvalidOp):
            await store.open_calls("ada", status=["pending", status])
