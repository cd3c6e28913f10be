"""Fork and rewind: an earlier point is a place to go on from, and nothing is rewritten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.conversations.taps import turns

from holdfast.errors import AlreadyExists, Busy, InvalidInput, NotFound, SeqConflict, StaleRecord
from holdfast.hub import Hub
from holdfast.model import (
    Image,
    Inline,
    Input,
    Message,
    RunEnded,
    RunStarted,
    StatePatch,
    Text,
    Todo,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from holdfast.testing import FakeClock, StoreKit
from holdfast.views.formats import stored

pytestmark = pytest.mark.anyio


def asks(id: str, *calls: str) -> Message:
    return Message(id, "assistant", tuple(ToolCall(call, "book", {"n": 1}) for call in calls))


async def texts(hub: Hub, id: str) -> list[str]:
    found = turns(await hub.open("ada", id))
    return [turn.text if isinstance(turn, Message) else turn.outcome for turn in found]


async def log(hub: Hub, id: str) -> list[Any]:
    conversation = await hub.open("ada", id)
    events = await hub.store.events(conversation._key)
    return [event.type for event in events]


async def test_a_fork_has_the_same_beginning_and_goes_on_by_itself(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append("one", "two", "three")
    await hub.conversations.update_metadata("ada", "c-1", {"team": 1})

    fork = await hub.conversations.fork("ada", "c-1", at=2, new_id="fork")
    await (await hub.open("ada", "fork")).append("other")

    assert (fork.forked_from, fork.forked_at, fork.metadata) == ("c-1", 2, {"team": 1})
    assert await texts(hub, "fork") == ["one", "two", "other"]
    assert await texts(hub, "c-1") == ["one", "two", "three"]
    with pytest.raises(AlreadyExists):
        await hub.conversations.fork("ada", "c-1", new_id="fork")
    with pytest.raises(InvalidInput, match="the log ends at 3"):
        await hub.conversations.fork("ada", "c-1", at=4)
    with pytest.raises(NotFound):
        await hub.conversations.fork("ada", "c-2")


async def test_a_fork_closes_what_was_open(hub: Hub) -> None:
    """Calls, the run and the queue: what happened later in the original still happened."""
    conversation = await hub.open("ada", "c-1")
    await conversation.append(
        RunStarted(1, "person", "guide"), asks("m1", "done", "never", "begun"), Input((Text("and quick"),))
    )
    await conversation.append(ToolStarted("begun"))
    await conversation.append(ToolResult("done", "ok", (Text("booked"),)))

    await hub.conversations.fork("ada", "c-1", at=4, new_id="fork")

    fork = await hub.open("ada", "fork")
    _, *results = turns(fork)
    assert [(r.call_id, r.outcome) for r in results] == [
        ("done", "ok"),
        ("never", "cancelled"),
        ("begun", "unknown"),
    ]
    kinds = await log(hub, "fork")
    assert kinds[4:] == ["tool_result"] * 3 + ["run", "retract"]
    assert await hub.calls.list("ada", "fork", status=["pending", "executing"]) == []
    assert [row.mark for row in (await hub.conversations.rows("ada", "fork")).rows if row.seq == 3] == [
        "retracted"
    ]
    assert [call.status for call in await hub.calls.list("ada", "c-1")] == ["completed", "pending", "pending"]


async def test_a_fork_keeps_the_summary_the_media_and_the_state_of_its_point(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    picture = Message("p", "user", (Image(Inline.of(b"\x00" * 50_000), "image/png"),))
    await conversation.append("one", "two", picture, StatePatch(todos=(Todo("1", "a"),)))
    await conversation.summarise("one and two", to_seq=2)
    await conversation.append(StatePatch(todos=()), "later")
    await conversation.summarise("all", to_seq=7)

    await hub.conversations.fork("ada", "c-1", at=5, new_id="fork")

    fork = await hub.open("ada", "fork")
    assert fork.summary is not None
    assert fork.summary.text == "one and two"
    assert [todo.content for todo in fork.state.todos] == ["a"]
    assert "base64" in str(fork.transcript("openai"))
    assert len(stored(turns(fork))) == 1


async def test_a_rewind_shows_what_was_there_and_keeps_what_came_after(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append("one", "two", StatePatch(set={"seat": "12A"}), "three")

    await hub.conversations.rewind("ada", "c-1", 2, reason="start over")
    await (await hub.open("ada", "c-1")).append("instead")

    assert await texts(hub, "c-1") == ["one", "two", "instead"]
    assert (await hub.conversations.state("ada", "c-1")).metadata == {}
    page = await hub.conversations.rows("ada", "c-1")
    assert [(row.seq, row.mark) for row in page.rows] == [
        (1, None),
        (2, None),
        (4, "retracted"),
        (6, None),
    ]
    old = await hub.conversations.rows("ada", "c-1", before="5.0", limit=1)
    assert [row.mark for row in old.rows] == ["retracted"]


async def test_a_rewind_of_a_rewind_brings_back_what_was_there(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append("one", "two", "three")
    await hub.conversations.rewind("ada", "c-1", 1)

    await hub.conversations.rewind("ada", "c-1", 3)

    assert await texts(hub, "c-1") == ["one", "two", "three"]
    assert [row.mark for row in (await hub.conversations.rows("ada", "c-1")).rows] == [None] * 3


async def test_an_old_page_knows_that_what_undid_it_was_undone(hub: Hub) -> None:
    """S26: the second rewind lies after the page."""
    await (await hub.open("ada", "c-1")).append("one")
    await hub.conversations.rewind("ada", "c-1", 0)
    await hub.conversations.rewind("ada", "c-1", 1)
    await (await hub.open("ada", "c-1")).append("two", "three")

    page = await hub.conversations.rows("ada", "c-1", before="3.0", limit=1)

    assert [(row.seq, row.mark) for row in page.rows] == [(1, None)]


async def test_a_rewind_behind_a_summary_brings_back_what_it_stood_for(hub: Hub) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append("one", StatePatch(set={"a": 1}), "two", "three")
    await conversation.summarise("all", to_seq=4)
    await conversation.append(StatePatch(set={"a": 2}), "four")

    await hub.conversations.rewind("ada", "c-1", 3)

    assert await texts(hub, "c-1") == ["one", "two"]
    assert (await hub.open("ada", "c-1")).summary is None
    assert (await hub.conversations.state("ada", "c-1")).metadata == {"a": 1}


async def test_no_call_is_open_after_a_rewind_and_what_happened_stays(hub: Hub) -> None:
    """L22: exactly one result for each call that the model still sees."""
    conversation = await hub.open("ada", "c-1")
    await conversation.append("go", RunStarted(1, "person", "guide"), asks("m1", "done", "open"))
    await conversation.append(ToolResult("done", "ok", (Text("booked"),)))
    await conversation.append(asks("m2", "undone"), RunEnded(1, "completed"))
    await hub.calls.interrupt("ada", "c-1", "undone", expires_in=60)

    await hub.conversations.rewind("ada", "c-1", 3)

    _, _, *results = turns(await hub.open("ada", "c-1"))
    assert [(r.call_id, r.outcome) for r in results] == [("done", "ok"), ("open", "cancelled")]
    assert {c.call_id: c.status for c in await hub.calls.list("ada", "c-1")} == {
        "done": "completed",
        "open": "cancelled",
        "undone": "cancelled",
    }
    assert (await hub.conversations.state("ada", "c-1")).interrupts == ()


async def test_a_rewind_does_not_run_over_anybody(hub: Hub, kit: StoreKit, clock: FakeClock) -> None:
    conversation = await hub.open("ada", "c-1")
    await conversation.append("one", "two")

    lease = await hub.store.acquire(conversation._key, "worker", ttl=60)
    assert lease is not None
    with pytest.raises(Busy, match="is being worked on"):
        await hub.conversations.rewind("ada", "c-1", 1)
    clock.advance(seconds=61)
    await hub.conversations.rewind("ada", "c-1", 1)

    assert await texts(hub, "c-1") == ["one"]
    with pytest.raises(InvalidInput):
        await hub.conversations.rewind("ada", "c-1", 99)


async def test_of_two_rewinds_that_race_one_wins(hub: Hub, kit: StoreKit, clock: FakeClock) -> None:
    """L3"""
    await (await hub.open("ada", "c-1")).append("one", "two", "three")

    async with Hub(kit.connect(clock=clock), clock=clock) as other:
        outcomes = await asyncio.gather(
            *(door.conversations.rewind("ada", "c-1", 1) for door in (hub, other)), return_exceptions=True
        )

    lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert all(isinstance(error, (SeqConflict, StaleRecord)) for error in lost)
    assert await texts(hub, "c-1") == ["one"]


async def test_any_cut_of_a_busy_log_gives_a_valid_fork_and_rewind(hub: Hub) -> None:
    """L23: a cut at any event."""
    conversation = await hub.open("ada", "c-1")
    await conversation.append("go", RunStarted(1, "person", "guide"), asks("m1", "a", "b"))
    await hub.calls.interrupt("ada", "c-1", "a")
    await hub.calls.record_decision("ada", "c-1", "a", "edit", step=1, args={"n": 2})
    await hub.calls.mark_executing("ada", "c-1", "a")
    await hub.calls.complete("ada", "c-1", "a", "booked")
    await hub.calls.fail("ada", "c-1", "b", "sold out")
    await conversation.refresh()
    await conversation.append("thanks", asks("m2", "c"))
    await conversation.summarise("short", to_seq=9)
    await conversation.append(ToolResult("c", "ok"), RunEnded(1, "completed"), "bye")
    last = conversation.seq

    for at in range(last + 1):
        await hub.conversations.fork("ada", "c-1", at=at, new_id=f"fork-{at}")
        await hub.conversations.fork("ada", "c-1", new_id=f"back-{at}")
        await hub.conversations.rewind("ada", f"back-{at}", at)
        forked = turns(await hub.open("ada", f"fork-{at}"))
        rewound = turns(await hub.open("ada", f"back-{at}"))
        for found in (forked, rewound):
            made = [call.call_id for turn in found if isinstance(turn, Message) for call in turn.calls]
            assert made == [turn.call_id for turn in found if isinstance(turn, ToolResult)]
        assert forked == rewound
        whole = await hub.store.events((await hub.open("ada", f"back-{at}"))._key)
        assert len(whole) > last
