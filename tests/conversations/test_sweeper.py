"""Expiries fire, once, whoever is dead and whatever the clock does."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from holdfast.errors import InvalidOp, StaleCall, StoreClosed, StoreUnavailable
from holdfast.hub import Hub
from holdfast.model import Call, Message, Resolution, ToolCall, ToolResult, ToolStarted
from holdfast.sweeper import Sweeper
from holdfast.testing import FakeClock, StoreKit
from holdfast.views import logged

pytestmark = pytest.mark.anyio


async def waiting(hub: Hub, id: str = "c-1", *, expires_in: float = 60, calls: int = 1) -> None:
    parts = tuple(ToolCall(f"m1/{number}", "book") for number in range(calls))
    await (await hub.open("ada", id)).append(Message("m1", "assistant", parts))
    for number in range(calls):
        await hub.calls.interrupt("ada", id, f"m1/{number}", expires_in=expires_in)


async def results(hub: Hub, id: str = "c-1") -> list[ToolResult]:
    conversation = await hub.open("ada", id)
    events = await hub.store.events(conversation._key)
    return [p for event in events if isinstance(p := logged(event).payload, ToolResult)]


async def test_a_call_expires_from_its_time_on_and_the_log_says_so(hub: Hub, clock: FakeClock) -> None:
    """A5: it resolves to a tool error though the agent is dead."""
    await waiting(hub)
    clock.advance(seconds=59.999999)
    assert await Sweeper(hub.store).sweep() == []
    clock.advance(seconds=0.000001)

    [closed] = await Sweeper(hub.store).sweep()

    call = await hub.calls.get("ada", "c-1", "m1/0")
    assert call is not None
    assert (closed.status, call.status, call.expires_at) == ("interrupted", "expired", None)
    [header] = await hub.store.headers("ada")
    events = [logged(event).payload for event in await hub.store.events(header.key)]
    assert events[-2:] == [Resolution("m1/0", 1, "expire"), ToolResult("m1/0", "expired")]
    assert header.wake_at == clock()
    assert (await hub.conversations.state("ada", "c-1")).interrupts == ()


async def test_an_expiry_fires_once_under_a_frozen_clock(hub: Hub, kit: StoreKit, clock: FakeClock) -> None:
    """L1: equal times change nothing."""
    await waiting(hub, calls=5, expires_in=0)

    async with kit.several(3, clock=clock) as stores:
        swept = await asyncio.gather(*(Sweeper(store).sweep() for store in stores for _ in range(2)))

    assert sorted(call.call_id for calls in swept for call in calls) == [f"m1/{n}" for n in range(5)]
    assert len(await results(hub)) == 5


async def test_a_clock_that_jumps_forward_fires_everything_and_back_fires_nothing(
    hub: Hub, clock: FakeClock
) -> None:
    await waiting(hub, "c-1", expires_in=60)
    await waiting(hub, "c-2", expires_in=3_600)
    sweeper = Sweeper(hub.store)

    clock.advance(seconds=-10_000)
    assert await sweeper.sweep() == []
    clock.advance(seconds=10_060)
    assert [call.key.id for call in await sweeper.sweep()] == ["c-1"]
    clock.advance(seconds=-10_000)
    assert await sweeper.sweep() == []
    clock.advance(seconds=86_400 * 365)

    assert [call.key.id for call in await sweeper.sweep()] == ["c-2"]
    assert [result.outcome for result in await results(hub, "c-1")] == ["expired"]


async def test_a_sweeper_that_was_overtaken_by_a_new_expiry_leaves_the_call(
    hub: Hub, clock: FakeClock
) -> None:
    """L29: rescheduling replaces the old timer, also under a sweeper's hands."""
    await waiting(hub)
    clock.advance(seconds=60)
    real_due = hub.store.due

    async def due(*, limit: int = 100) -> list[Call]:
        found = await real_due(limit=limit)
        clock.advance(seconds=-1)
        await hub.calls.schedule_expiry("ada", "c-1", "m1/0", 600)
        clock.advance(seconds=1)
        return found

    hub.store.due = due  # type: ignore[method-assign]

    assert await Sweeper(hub.store).sweep() == []
    assert await results(hub) == []


async def test_a_sweeper_closes_the_wait_that_it_saw_and_not_the_next_one(hub: Hub, clock: FakeClock) -> None:
    """L25: the call was answered in time and waits anew."""
    await waiting(hub)
    clock.advance(seconds=60)
    found = await hub.store.due()
    clock.advance(seconds=-1)
    await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)
    await hub.calls.interrupt("ada", "c-1", "m1/0", expires_in=1)
    clock.advance(seconds=1)

    async def due(*, limit: int = 100) -> list[Call]:
        return found

    hub.store.due = due  # type: ignore[method-assign]

    assert await Sweeper(hub.store).sweep() == []
    assert await results(hub) == []


async def test_an_answer_and_an_expiry_that_race_have_one_winner(hub: Hub, clock: FakeClock) -> None:
    """L25"""
    await waiting(hub)
    clock.advance(seconds=60)

    swept, *answers = await asyncio.gather(
        Sweeper(hub.store).sweep(),
        *(hub.calls.resolve("ada", "c-1", "m1/0", "late", step=1) for _ in range(3)),
        return_exceptions=True,
    )

    assert isinstance(swept, list)
    assert len(swept) == 1
    assert all(isinstance(answer, StaleCall) for answer in answers)
    assert [result.outcome for result in await results(hub)] == ["expired"]


async def test_a_call_that_took_too_long_says_that_it_may_have_had_its_effect(
    hub: Hub, clock: FakeClock
) -> None:
    await (await hub.open("ada", "c-1")).append(Message("m1", "assistant", (ToolCall("m1/0", "book"),)))
    await hub.calls.mark_executing("ada", "c-1", "m1/0", expires_in=5)
    clock.advance(seconds=5)

    await Sweeper(hub.store).sweep()

    [result] = await results(hub)
    assert "may have had its effect" in result.parts[0].text  # type: ignore[union-attr]
    assert ToolStarted("m1/0", actor="ada") in [
        logged(event).payload for event in await hub.store.events((await hub.store.headers("ada"))[0].key)
    ]


async def test_more_than_a_page_of_calls_expires_in_one_sweep(hub: Hub) -> None:
    for number in range(3):
        await waiting(hub, f"c-{number}", calls=50, expires_in=0)
    told: list[Call] = []

    def tell(call: Call) -> None:
        told.append(call)
        raise RuntimeError("not my business")

    assert len(await Sweeper(hub.store, on_expired=tell).sweep()) == 150
    assert len(told) == 150


async def test_a_deleted_conversation_is_no_trouble(hub: Hub) -> None:
    """L16"""
    await waiting(hub, expires_in=0)
    found = await hub.store.due()
    await hub.conversations.delete("ada", "c-1")

    async def due(*, limit: int = 100) -> list[Call]:
        return found

    hub.store.due = due  # type: ignore[method-assign]

    assert await Sweeper(hub.store).sweep() == []
    assert await hub.conversations.get_or_none("ada", "c-1") is None


async def test_a_sweeper_runs_until_it_is_left_and_goes_on_when_the_store_fails(
    hub: Hub, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await waiting(hub)
    turns: list[float] = []
    again = asyncio.Event()
    real_due = hub.store.due

    async def due(*, limit: int = 100) -> list[Call]:
        if len(turns) == 1:
            raise StoreUnavailable("gone for a moment")
        return await real_due(limit=limit)

    async def pause(seconds: float) -> None:
        turns.append(seconds)
        clock.advance(seconds=30)
        if len(turns) == 4:
            again.set()
            await asyncio.Event().wait()

    hub.store.due = due  # type: ignore[method-assign]
    async with Sweeper(hub.store, every=30, pause=pause) as sweeper, asyncio.timeout(10):
        assert await sweeper.__aenter__() is sweeper
        await again.wait()

    assert turns == [30] * 4
    assert "could not be swept" in caplog.text
    assert [result.outcome for result in await results(hub)] == ["expired"]
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "holdfast-sweeper"]


async def test_a_sweeper_ends_with_its_store(hub: Hub) -> None:
    await hub.store.close()

    with pytest.raises(StoreClosed):
        await Sweeper(hub.store).run()
    with pytest.raises(InvalidOp):
        Sweeper(hub.store, every=0)


async def test_among_real_processes_each_expiry_fires_once(tmp_path: Path) -> None:
    """Promise 4: the process that scheduled it is gone."""
    url = f"sqlite:///{tmp_path}/a.db"
    async with Hub(StoreKit(url).connect()) as hub:
        await waiting(hub, calls=20, expires_in=0)
    code = (
        "import asyncio, sys\n"
        "from holdfast.store import connect\n"
        "from holdfast.sweeper import Sweeper\n"
        "async def main():\n"
        f"    async with connect({url!r}) as store:\n"
        "        print(len(await Sweeper(store).sweep()))\n"
        "asyncio.run(main())\n"
    )

    sweepers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        for _ in range(3)
    ]
    counts = [int((await sweeper.communicate())[0]) for sweeper in sweepers]

    assert sum(counts) == 20
    async with Hub(StoreKit(url).connect()) as hub:
        assert len(await results(hub)) == 20
