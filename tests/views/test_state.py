"""What an agent keeps beside its messages."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.views.logs import answers, asks, log, logs, user

from holdfast.errors import InvalidPayload
from holdfast.model import Event, Resolution, Retract, State, StatePatch, Suspension, Todo
from holdfast.views import AgentState, StateField, StateFold, logged, state, transcript

SAVED = Path(__file__).parent / "saved"
SINCE = StateField(
    "since",
    dump=lambda value: {"iso": value.isoformat()},
    load=lambda value: datetime.date.fromisoformat(value["iso"]),
    initial=lambda: datetime.date(2026, 1, 1),
)


def test_patches_change_only_what_they_name() -> None:
    """L46"""
    folded = state(
        log(
            StatePatch(todos=(Todo("1", "pack"),), set={"a": 1, "b": 2}),
            StatePatch(set={"a": 3}, unset=("b",)),
        )
    )

    assert folded == State(2, (Todo("1", "pack"),), {"a": 3})


def test_an_interrupt_is_open_until_it_is_answered_or_the_call_has_its_result() -> None:
    waits = [Suspension("c1", 1, "approval"), Suspension("c2", 1, "client")]

    assert [wait.call_id for wait in state(log(asks("c1", "c2"), *waits)).interrupts] == ["c1", "c2"]
    assert state(log(*waits, Resolution("c1", 1, "approve"), answers("c2"))).interrupts == ()


def test_what_was_undone_has_no_effect() -> None:
    events = [StatePatch(set={"a": 1}), StatePatch(set={"a": 2}), Retract(0, 2, 2)]

    assert state(log(*events)).metadata == {"a": 1}


@given(logs())
def test_folding_live_and_folding_the_log_give_the_same(log: list[Event]) -> None:
    live = StateFold()
    for event in log:
        live.apply(event)
        live.apply(event)
        assert live.state == state(log[: event.seq])

    assert live.state == state(map(logged, log))


@given(logs())
def test_a_saved_state_comes_back_and_does_not_say_whose_it_is(log: list[Event]) -> None:
    """S5"""
    folded = state(log)
    before = AgentState("agent-7", transcript(log), folded.todos, folded.metadata, folded.interrupts)

    saved = before.to_serialized()
    after = AgentState.from_serialized("agent-7", saved)

    assert after == before
    assert "agent-7" not in json.dumps(saved)


@pytest.mark.parametrize("load", [lambda text: text, lambda text: text.encode(), json.loads])
def test_an_older_version_is_upgraded_on_every_load_path(load: Any) -> None:
    """S5"""
    old = AgentState.from_serialized("travel", load((SAVED / "state.v1.json").read_text()))

    assert [turn.text for turn in old.messages if hasattr(turn, "text")] == ["Book me a flight", "To where?"]
    assert old.todos == (Todo("0", "ask where", "completed"), Todo("1", "book"))
    assert old.metadata == {"seat": "12A", "Camel_case-key": {"1": True}}
    assert old.interrupts == (Suspension("c1", 1, "question"),)
    assert AgentState.from_serialized("travel", old.to_serialized()) == old


def test_a_middleware_says_how_its_value_is_kept_on_both_ways() -> None:
    """S6"""
    before = AgentState("a", metadata={"since": datetime.date(2026, 7, 1)})

    saved = before.to_serialized([SINCE])

    assert saved["state"]["metadata"] == {"since": {"iso": "2026-07-01"}}
    assert AgentState.from_serialized("a", json.dumps(saved), [SINCE]) == before


def test_without_it_such_a_value_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidPayload) as caught:
        AgentState("a", metadata={"since": datetime.date(2026, 7, 1)}).to_serialized()

    assert caught.value.path == "$.metadata.since"


def test_a_middleware_that_was_added_starts_with_its_initial_value() -> None:
    """S7"""
    saved = AgentState("a").to_serialized()

    assert AgentState.from_serialized("a", saved, [SINCE]).metadata == {"since": datetime.date(2026, 1, 1)}


def test_metadata_of_a_middleware_that_was_removed_is_kept_and_harmless() -> None:
    """S7"""
    saved = AgentState("a", metadata={"since": datetime.date(2026, 7, 1)}).to_serialized([SINCE])

    orphan = AgentState.from_serialized("a", saved)

    assert orphan.metadata == {"since": {"iso": "2026-07-01"}}
    assert orphan.to_serialized() == saved


@pytest.mark.parametrize(
    "data", ["[]", "{}", '{"version":9,"state":{}}', '{"version":1,"state":{"todos":5}}']
)
def test_what_is_no_saved_state_is_refused(data: str) -> None:
    with pytest.raises(InvalidPayload):
        AgentState.from_serialized("a", data)


def test_messages_are_saved_with_calls_and_results() -> None:
    before = AgentState("a", transcript(log(user("go"), asks("c1", "c2"), answers("c1"))))

    assert AgentState.from_serialized("a", before.to_serialized()) == before
