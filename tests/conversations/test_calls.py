"""Tool calls from the outside: each move by its table, each answer once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from tests.conversations.taps import turns

from holdfast.errors import InvalidInput, MessageTooLarge, StaleCall
from holdfast.hub import Hub
from holdfast.model import (
    MOVES,
    OPENED_AS,
    CallStatus,
    Data,
    Failure,
    Input,
    Message,
    Option,
    Question,
    Resolution,
    Suspension,
    Text,
    ToolCall,
    ToolResult,
    ToolStarted,
    args_hash,
)
from holdfast.recording import facts_of
from holdfast.store import MoveCall
from holdfast.testing import FakeClock
from holdfast.views import logged

pytestmark = pytest.mark.anyio

ARGS = {"seat": "12A"}
PATHS: dict[CallStatus, tuple[CallStatus, ...]] = {
    "pending": (),
    "executing": ("executing",),
    "interrupted": ("interrupted",),
    "detached": ("executing", "detached"),
    "completed": ("completed",),
    "failed": ("failed",),
    "cancelled": ("cancelled",),
    "expired": ("interrupted", "expired"),
}
FUNCTIONS: dict[str, tuple[CallStatus, Callable[[Hub], Any]]] = {
    "mark_executing": ("executing", lambda h: h.calls.mark_executing("ada", "c-1", "m1/0")),
    "claim": ("executing", lambda h: h.calls.mark_executing("ada", "c-1", "m1/0", step=1)),
    "complete": ("completed", lambda h: h.calls.complete("ada", "c-1", "m1/0", "booked")),
    "fail": ("failed", lambda h: h.calls.fail("ada", "c-1", "m1/0", "sold out")),
    "cancel": ("cancelled", lambda h: h.calls.cancel("ada", "c-1", "m1/0")),
    "interrupt": ("interrupted", lambda h: h.calls.interrupt("ada", "c-1", "m1/0")),
    "approve": ("pending", lambda h: h.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)),
    "reject": ("failed", lambda h: h.calls.record_decision("ada", "c-1", "m1/0", "reject", step=1)),
    "resolve": ("completed", lambda h: h.calls.resolve("ada", "c-1", "m1/0", "booked", step=1)),
}
FROM: dict[str, set[CallStatus]] = {
    "mark_executing": {"pending"},
    "claim": {"interrupted"},
    "complete": {"pending", "executing", "detached"},
    "fail": {"pending", "executing", "detached"},
    "cancel": {"pending", "executing", "interrupted", "detached"},
    "interrupt": {"pending", "executing"},
    "approve": {"interrupted"},
    "reject": {"interrupted"},
    "resolve": {"interrupted"},
}


async def a_call(hub: Hub, status: CallStatus = "pending") -> None:
    """A call of ada in this status, by bare moves."""
    conversation = await hub.open("ada", "c-1")
    await conversation.append(Message("m1", "assistant", (ToolCall("m1/0", "book", ARGS),)))
    here: CallStatus = "pending"
    for there in PATHS[status]:
        expires_in = 0 if there == "interrupted" and status == "expired" else None
        await hub.store.commit(
            conversation._key, [MoveCall("m1/0", there, frozenset((here,)), expires_in=expires_in)]
        )
        here = there


async def log(hub: Hub) -> list[Any]:
    [header] = await hub.store.headers("ada")
    return [logged(event).payload for event in await hub.store.events(header.key)]


async def status(hub: Hub) -> CallStatus:
    call = await hub.calls.get("ada", "c-1", "m1/0")
    assert call is not None
    return call.status


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("before", PATHS)
async def test_a_function_moves_a_call_as_the_table_says_or_not_at_all(
    hub: Hub, name: str, before: CallStatus
) -> None:
    """S11: illegal moves are refused, and log and row agree."""
    await a_call(hub, before)
    events = len(await log(hub))
    after, function = FUNCTIONS[name]

    if before in FROM[name]:
        assert after in MOVES[before]
        await function(hub)
        assert await status(hub) == after
        assert len(await log(hub)) > events
    else:
        with pytest.raises(StaleCall):
            await function(hub)
        assert await status(hub) == before
        assert len(await log(hub)) == events


async def test_every_final_move_appends_the_one_result(hub: Hub) -> None:
    """L22"""
    for name in ("complete", "fail", "cancel", "reject", "resolve"):
        await a_call(hub, "interrupted" if name in ("reject", "resolve") else "pending")
        await FUNCTIONS[name][1](hub)

        assert [type(p) for p in await log(hub)].count(ToolResult) == 1, name
        with pytest.raises(StaleCall):
            await FUNCTIONS["cancel"][1](hub)
        assert [type(p) for p in await log(hub)].count(ToolResult) == 1, name
        await hub.conversations.delete("ada", "c-1")
    assert {"pending", "interrupted", "completed"} == OPENED_AS


async def test_an_approval_is_bound_to_what_was_shown(hub: Hub) -> None:
    """L27"""
    await a_call(hub)
    wait = await hub.calls.interrupt("ada", "c-1", "m1/0", prompt="Book 12A?")
    assert (wait.step, wait.args_hash) == (1, args_hash(ARGS))

    with pytest.raises(StaleCall):
        await hub.calls.record_decision(
            "ada", "c-1", "m1/0", "approve", step=1, args_hash=args_hash({"seat": "1A"})
        )
    said = await hub.calls.record_decision(
        "ada", "c-1", "m1/0", "edit", step=1, args_hash=wait.args_hash, args={"seat": "14C"}
    )

    call = await hub.calls.get("ada", "c-1", "m1/0")
    assert call is not None
    facts = facts_of(call)
    assert (facts.granted, facts.args, facts.effective_args, facts.actor) == (
        True,
        ARGS,
        {"seat": "14C"},
        "ada",
    )
    assert (await log(hub))[1:] == [wait, said]
    assert (await hub.store.headers("ada"))[0].wake_at is not None


async def test_a_second_click_does_not_answer_the_next_question(hub: Hub) -> None:
    """L25"""
    await a_call(hub)
    await hub.calls.interrupt("ada", "c-1", "m1/0")
    await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)
    second = await hub.calls.interrupt("ada", "c-1", "m1/0", prompt="Really?")

    with pytest.raises(StaleCall):
        await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)

    assert (second.step, await status(hub)) == (2, "interrupted")


async def test_a_wait_is_numbered_as_its_row_is_whoever_came_between(hub: Hub) -> None:
    """L25: a step is what an answer names, so log and row must agree on it."""
    await a_call(hub)
    read = hub.store.calls

    async def slow(*args: Any, **kwargs: Any) -> Any:
        found = await read(*args, **kwargs)
        hub.store.calls = read  # type: ignore[method-assign]
        await hub.calls.interrupt("ada", "c-1", "m1/0")
        await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)
        return found

    hub.store.calls = slow  # type: ignore[method-assign]
    with pytest.raises(StaleCall):
        await hub.calls.interrupt("ada", "c-1", "m1/0")

    assert await status(hub) == "pending"


async def test_only_the_decisions_that_are_listed_are_taken(hub: Hub) -> None:
    """S33, S34"""
    await a_call(hub)
    question = Question("Which seat?", (Option("12A"), Option("14C")))
    await hub.calls.interrupt("ada", "c-1", "m1/0", kind="question", question=question)
    with pytest.raises(InvalidInput, match="takes answer, reject, not approve"):
        await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)
    await hub.calls.record_decision("ada", "c-1", "m1/0", "answer", step=1, answer="12A")

    await hub.calls.interrupt("ada", "c-1", "m1/0", decisions=("approve",))
    with pytest.raises(InvalidInput, match="takes approve, not reject"):
        await hub.calls.record_decision("ada", "c-1", "m1/0", "reject", step=2)
    with pytest.raises(InvalidInput, match="takes approve, not result"):
        await hub.calls.resolve("ada", "c-1", "m1/0", "booked", step=2)

    assert await status(hub) == "interrupted"


async def test_an_edit_without_arguments_is_refused(hub: Hub) -> None:
    await a_call(hub)
    await hub.calls.interrupt("ada", "c-1", "m1/0")

    with pytest.raises(InvalidInput, match="has the new arguments as args"):
        await hub.calls.record_decision("ada", "c-1", "m1/0", "edit", step=1)


async def test_a_rejection_tells_the_model_why(hub: Hub) -> None:
    await a_call(hub)
    await hub.calls.interrupt("ada", "c-1", "m1/0")

    await hub.calls.record_decision("ada", "c-1", "m1/0", "reject", step=1, reason="Too dear.")

    [_, result] = turns(await hub.open("ada", "c-1"))
    assert (result.outcome, result.parts[0].text) == ("rejected", "A person said: Too dear.")


async def test_a_client_takes_its_call_and_brings_the_result(hub: Hub, clock: FakeClock) -> None:
    await a_call(hub)
    wait = await hub.calls.interrupt("ada", "c-1", "m1/0", kind="client", expires_in=10)
    await hub.calls.mark_executing("ada", "c-1", "m1/0", step=wait.step, expires_in=60)
    clock.advance(seconds=30)

    with pytest.raises(StaleCall):
        await hub.calls.mark_executing("ada", "c-1", "m1/0", step=wait.step)
    await hub.calls.resolve("ada", "c-1", "m1/0", {"seat": "12A"}, step=wait.step)

    assert (await log(hub))[1:] == [
        wait,
        ToolStarted("m1/0", step=1, actor="ada"),
        Resolution("m1/0", 1, "result", actor="ada"),
        ToolResult("m1/0", "ok", (Data({"seat": "12A"}),)),
    ]


async def test_a_call_that_runs_here_is_not_resolved_from_outside(hub: Hub) -> None:
    await a_call(hub)
    await hub.calls.interrupt("ada", "c-1", "m1/0")
    await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)
    await hub.calls.mark_executing("ada", "c-1", "m1/0")

    with pytest.raises(StaleCall):
        await hub.calls.resolve("ada", "c-1", "m1/0", "forged", step=1)

    assert await status(hub) == "executing"


async def test_a_result_that_failed_elsewhere_is_a_failure(hub: Hub) -> None:
    await a_call(hub)
    wait = await hub.calls.interrupt("ada", "c-1", "m1/0", kind="child", child="c-1/child")

    await hub.calls.resolve("ada", "c-1", "m1/0", step=wait.step, failure=Failure("crashed", "It crashed."))

    assert await status(hub) == "failed"
    assert isinstance((await log(hub))[-1], ToolResult)


async def test_the_end_of_a_call_in_the_background_comes_as_news(hub: Hub) -> None:
    await a_call(hub, "detached")

    await hub.calls.complete("ada", "c-1", "m1/0", "booked")

    assert (await log(hub))[-1] == Input((Text("booked"),), "task", call_id="m1/0", outcome="ok")
    assert (await hub.store.headers("ada"))[0].wake_at is not None


async def test_a_result_that_is_no_json_is_kept_as_text_with_a_mark(hub: Hub) -> None:
    """L33"""
    await a_call(hub)

    await hub.calls.complete("ada", "c-1", "m1/0", {"at": datetime(2026, 7, 1)}, artifact=object())

    result = (await log(hub))[-1]
    assert isinstance(result, ToolResult)
    assert result.degraded
    assert result.parts == (Data({"at": "<datetime.datetime> 2026-07-01 00:00:00"}),)


async def test_a_result_over_the_limit_changes_nothing(hub: Hub) -> None:
    await a_call(hub)
    small = Hub(hub.store, max_message=1_000)

    with pytest.raises(MessageTooLarge, match="at most 1,000 are allowed here"):
        await small.calls.complete("ada", "c-1", "m1/0", "x" * 1_001)

    assert await status(hub) == "pending"


async def test_an_expiry_is_scheduled_replaced_and_cancelled(hub: Hub, clock: FakeClock) -> None:
    """L29, A5"""
    await a_call(hub)
    with pytest.raises(StaleCall):
        await hub.calls.schedule_expiry("ada", "c-1", "m1/0", 10)
    await hub.calls.interrupt("ada", "c-1", "m1/0", expires_in=10)
    await hub.calls.schedule_expiry("ada", "c-1", "m1/0", 100)
    clock.advance(seconds=50)
    assert await hub.store.due() == []

    await hub.calls.cancel_expiry("ada", "c-1", "m1/0")
    clock.advance(seconds=1_000)

    assert await hub.store.due() == []
    await hub.calls.schedule_expiry("ada", "c-1", "m1/0", 0)
    assert len(await hub.store.due()) == 1
    with pytest.raises(StaleCall):
        await hub.calls.schedule_expiry("ada", "c-1", "m1/0", 10)
    with pytest.raises(StaleCall):
        await hub.calls.record_decision("ada", "c-1", "m1/0", "approve", step=1)


async def test_what_waits_is_found_across_conversations(hub: Hub) -> None:
    for id in ("c-1", "c-2"):
        await (await hub.open("ada", id)).append(Message("m1", "assistant", (ToolCall("m1/0", "book"),)))
        await hub.calls.interrupt("ada", id, "m1/0", prompt="Book?")
    await (await hub.open("ada", "c-3")).append(Message("m1", "assistant", (ToolCall("m1/0", "book"),)))

    waiting = await hub.calls.waiting("ada")

    assert sorted(call.key.id for call in waiting) == ["c-1", "c-2"]
    assert facts_of(waiting[0]).wait == Suspension(
        "m1/0", 1, "approval", args_hash=args_hash({}), prompt="Book?"
    )


async def test_notes_on_a_card_merge_though_writers_race(hub: Hub) -> None:
    await a_call(hub)

    await asyncio.gather(
        *(hub.calls.annotate("ada", "c-1", "m1/0", {f"{number}": number}) for number in range(8))
    )

    [row] = (await hub.conversations.rows("ada", "c-1")).rows
    assert {f"{n}": n for n in range(8)}.items() <= row.content.metadata.items()  # type: ignore[union-attr]
    with pytest.raises(StaleCall):
        await hub.calls.annotate("ada", "c-1", "unknown", {})


async def test_a_placeholder_ends_no_call(hub: Hub) -> None:
    await a_call(hub)

    with pytest.raises(InvalidInput):
        await hub.calls.finish("ada", "c-1", ToolResult("m1/0", "detached"))
