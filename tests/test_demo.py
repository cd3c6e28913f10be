"""The demo shows what it says, and would say so if it did not hold."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.model.records import Event

DEMO = Path(__file__).parent.parent / "examples" / "demo.py"
CHECKS = 5


@pytest.fixture(scope="module")
def demo() -> Any:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["demo"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_kills_twice_and_proves_that_all_of_it_held(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, DEMO], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SIGKILL while") == 2
    assert "find_hotel started, again, under the same id" in done.stdout
    assert done.stdout.count(" won\n") == 1
    assert done.stdout.count("StaleCall") == 1
    assert done.stdout.count("| holds |") == CHECKS
    assert "BROKEN" not in done.stdout
    assert "NOT AS BEFORE" not in done.stdout
    assert done.stderr == ""


def test_it_is_plain_text_on_a_terminal_that_wants_no_colours(tmp_path: Path) -> None:
    ours, theirs = os.openpty()

    with subprocess.Popen(
        [sys.executable, DEMO], cwd=tmp_path, stdout=theirs, env=os.environ | {"NO_COLOR": "1"}
    ) as run:
        os.close(theirs)
        shown = b"".join(iter(lambda: read(ours), b""))
    os.close(ours)

    assert run.returncode == 0
    assert b"Proof" in shown
    assert b"\x1b" not in shown
    assert shown.isascii()


def read(terminal: int) -> bytes:
    """What the terminal has; nothing once the other side is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def held(demo: Any) -> tuple[list[Any], dict[str, Any], list[Event]]:
    """What a run looks like in which everything held."""
    names = [*(name for name, _ in demo.SEARCHES), demo.BOOKING]
    data = [*(b'{"call_id": "%b"}' % name.encode() for name in names), b'{"decision": "approve"}']
    types = [*["tool_result"] * len(names), "resolution"]
    events = [Event(seq, kind, data[seq - 1], 0) for seq, kind in enumerate(types, 1)]
    told = {event.seq: event.data.decode() for event in events}
    lives = [demo.Life(told, "working", killed=True), demo.Life({}, "working", killed=True), demo.Life(told)]
    return lives, {"laptop": demo.Told("won"), "phone": demo.Told("late")}, events


def test_the_proof_holds_if_everything_held(demo: Any) -> None:
    assert demo.prove(*held(demo)).holds


def test_an_acknowledged_event_that_is_not_stored_breaks_the_proof(demo: Any) -> None:
    lives, outcomes, events = held(demo)
    lives[0].acknowledged[99] = "gone"

    assert not demo.prove(lives, outcomes, events).holds


def test_an_event_with_other_content_breaks_the_proof(demo: Any) -> None:
    lives, outcomes, events = held(demo)
    events[-1] = msgspec.structs.replace(events[-1], data=b'{"decision": "reject"}')

    assert not demo.prove(lives, outcomes, events).holds


def test_a_gap_breaks_the_proof(demo: Any) -> None:
    lives, outcomes, events = held(demo)
    extra = msgspec.structs.replace(events[-1], seq=9, type="notice")

    assert not demo.prove(lives, outcomes, [*events, extra]).holds


@pytest.mark.parametrize(("laptop", "phone"), [("won", "won"), ("late", "late")])
def test_any_number_of_winners_but_one_breaks_the_proof(demo: Any, laptop: str, phone: str) -> None:
    lives, _, events = held(demo)
    outcomes = {"laptop": demo.Told(laptop), "phone": demo.Told(phone)}

    assert not demo.prove(lives, outcomes, events).holds


def test_a_second_resolution_in_the_log_breaks_the_proof(demo: Any) -> None:
    lives, outcomes, events = held(demo)
    second = msgspec.structs.replace(events[-1], seq=len(events) + 1)

    assert not demo.prove(lives, outcomes, [*events, second]).holds


@pytest.mark.parametrize("count", [0, 2])
def test_a_call_without_a_result_or_with_two_breaks_the_proof(demo: Any, count: int) -> None:
    lives, outcomes, [first, *rest] = held(demo)
    changed = [msgspec.structs.replace(event, seq=n) for n, event in enumerate([*[first] * count, *rest], 1)]
    told = {event.seq: event.data.decode() for event in changed}
    alike = [demo.Life(told, killed=life.killed) for life in lives]

    assert not demo.prove(alike, outcomes, changed).holds


def test_a_process_that_was_not_killed_at_work_breaks_the_proof(demo: Any) -> None:
    lives, outcomes, events = held(demo)
    lives[0].killed = False

    assert not demo.prove(lives, outcomes, events).holds
