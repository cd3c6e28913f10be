"""
A conversation that is killed twice and goes on: ``python examples/demo.py``.

An agent plans a trip in a process of its own. That process gets SIGKILL while a tool runs, the next
one in the middle of a commit, and the third one finishes. Then two browsers answer the same question
at once. Nothing is simulated but the model: the processes, the kills and the file are real.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import StaleCall
from holdfast.model import (
    Event,
    Input,
    Message,
    Payload,
    Resolution,
    Suspension,
    Text,
    ToolCall,
    ToolResult,
    ToolStarted,
    decode,
    encode,
    search_text,
    type_of,
)
from holdfast.store import Append, ConversationKey, MoveCall, OpenCall, SetHeader, Store, connect

if TYPE_CHECKING:
    from rich.table import Table

FOLDER = Path(".demo")
TRIP = ConversationKey("user-1", "trip-42")
SEARCHES = (("find_flights", "Lisbon, 2 May, 09:40"), ("find_hotel", "Casa do Mar, 3 nights"))
BOOKING = "book_trip"
PLAN = 80
KILLED_AT = 30
PATIENCE = 20.0


# The agent: a process that reads the log, does what is missing, and tells what was acknowledged.


class Told(msgspec.Struct, frozen=True):
    """
    What the agent's process says to the one that started it, in lines.

    ``acknowledged`` are the seqs of events whose commit has returned, with their data.
    """

    doing: str
    acknowledged: dict[int, str] = {}


def tell(told: Told) -> None:
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    sys.stdout.flush()


def said(payload: Payload) -> Append:
    return Append(type_of(payload), encode(payload), text=search_text(payload))


class Agent:
    """Goes on from whatever the log says. It has no other memory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> None:
        asked = Input((Text("Plan a trip to Lisbon, and book it when I agree."),))
        await self._commit(
            "reading the request", said(asked), token="delivery-1", create=SetHeader(title="Lisbon")
        )
        for name, found in SEARCHES:
            await self._search(name, found)
        await self._write_plan()
        await self._book()

    async def _commit(
        self, doing: str, *ops: Append | OpenCall | MoveCall, token: str, create: SetHeader | None = None
    ) -> None:
        tell(Told(doing))
        done = await self._store.commit(TRIP, ops, token=token, create=create)
        appended = [op.data.decode() for op in ops if isinstance(op, Append)]
        tell(Told("", dict(zip(done.seqs, appended, strict=True))))

    async def _status(self, call_id: str) -> str | None:
        calls = await self._store.calls(TRIP, call_ids=[call_id])
        return calls[0].status if calls else None

    async def _search(self, name: str, found: str) -> None:
        status = await self._status(name)
        if status is None:
            wants = Message(f"m-{name}", "assistant", (ToolCall(name, name),), stop="tool_calls")
            await self._commit(f"asking for {name}", said(wants), OpenCall(name, name), token=f"ask-{name}")
        if status == "completed":
            return
        # Found as executing: its process died, and nobody knows how far it came. A search changes
        # nothing, so it runs again, under the same id.
        attempt = 2 if status == "executing" else 1
        begun = MoveCall(name, "executing", frozenset({"pending", "executing"}))
        await self._commit(
            f"starting {name}", begun, said(ToolStarted(name, attempt)), token=f"start-{name}-{attempt}"
        )
        tell(Told(f"running {name}"))
        await asyncio.sleep(0.3)
        ended = MoveCall(name, "completed", frozenset({"executing"}))
        result = ToolResult(name, "ok", (Text(found),))
        await self._commit(f"ending {name}", ended, said(result), token=f"end-{name}")

    async def _write_plan(self) -> None:
        events = await self._store.events(TRIP)
        written = sum(event.type == "message" for event in events) - len(SEARCHES)
        for line in range(written + 1, PLAN + 1):
            message = Message(f"line-{line}", "assistant", (Text(f"Plan, line {line} of {PLAN}"),))
            await self._commit(f"writing line {line}", said(message), token=f"line-{line}")
            await asyncio.sleep(0.003)

    async def _book(self) -> None:
        status = await self._status(BOOKING)
        if status is None:
            wants = Message("m-book", "assistant", (ToolCall(BOOKING, BOOKING),), stop="tool_calls")
            waits = Suspension(BOOKING, 1, "approval", prompt="Book it for 412 EUR?")
            waiting = OpenCall(BOOKING, BOOKING, "interrupted", "human")
            await self._commit("asking for approval", said(wants), waiting, said(waits), token="ask-booking")
        if status == "pending":
            # Durable before the side effect begins: a booking that may have been made is never made again.
            begun = MoveCall(BOOKING, "executing", frozenset({"pending"}))
            await self._commit("starting to book", begun, said(ToolStarted(BOOKING)), token="start-booking")
            booked = MoveCall(BOOKING, "completed", frozenset({"executing"}))
            result = ToolResult(BOOKING, "ok", (Text("Booked, confirmation HF-42"),))
            await self._commit("booking", booked, said(result), token="end-booking")


async def be_agent(url: str) -> None:
    """Work on the conversation until there is nothing left to do."""
    async with connect(url) as store:
        await Agent(store).run()


async def be_browser(url: str, who: str) -> None:
    """Approve the booking at the very moment that a line comes in."""
    async with connect(url) as store:
        tell(Told("ready"))
        sys.stdin.readline()
        approve = Resolution(BOOKING, 1, "approve", actor=who)
        move = MoveCall(BOOKING, "pending", frozenset({"interrupted"}), step=1)
        try:
            done = await store.commit(TRIP, [move, said(approve)])
        except StaleCall:
            tell(Told("late"))
        else:
            tell(Told("won", {done.last_seq: encode(approve).decode()}))


# The one who kills: starts those processes, listens, and compares what it heard with what is stored.


class Process:
    """A process of this file, in another role."""

    def __init__(self, role: str, *arguments: str) -> None:
        command = [sys.executable, __file__, role, *arguments]
        self.popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # A demo that hangs proves nothing; one that ends shows which line was missing.
        self._watchdog = threading.Timer(PATIENCE, self.popen.kill)
        self._watchdog.start()

    def lines(self) -> Iterator[Told]:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            yield msgspec.json.decode(line, type=Told)

    def go(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("go\n")
        self.popen.stdin.flush()

    def kill(self) -> bool:
        """Send SIGKILL; whether it was what ended a living process."""
        living = self.popen.poll() is None
        self.popen.kill()
        return self.end() == -signal.SIGKILL and living

    def end(self) -> int:
        code = self.popen.wait()
        self._watchdog.cancel()
        return code


class Life(msgspec.Struct):
    """One process of the agent: what it was told had been stored, what it did last, and how it ended."""

    acknowledged: dict[int, str] = msgspec.field(default_factory=dict)
    doing: str = ""
    killed: bool = False


def live(url: str, until: str | None = None) -> Life:
    """Let an agent work, and kill it when it says that it is doing ``until``."""
    process, life = Process("agent", url), Life()
    for told in process.lines():
        life.acknowledged |= told.acknowledged
        life.doing = told.doing or life.doing
        if until is not None and told.doing == until:
            life.killed = process.kill()
    process.end()
    return life


def race(url: str, *names: str) -> dict[str, Told]:
    """Let several browsers answer at once; what each of them was told."""
    browsers = {name: Process("browser", url, name) for name in names}
    answers = {name: browser.lines() for name, browser in browsers.items()}
    for lines in answers.values():
        next(lines)
    for browser in browsers.values():
        browser.go()
    outcomes = {name: next(lines) for name, lines in answers.items()}
    for browser in browsers.values():
        browser.end()
    return outcomes


class Proof(msgspec.Struct, frozen=True):
    """What has to hold, as numbers. ``results`` counts the results of each call."""

    kills: int
    acknowledged: int
    stored: int
    gaps: int
    results: dict[str, int]
    winners: int
    resolutions: int

    @property
    def checks(self) -> list[tuple[str, str, bool]]:
        """What must hold, what was found, and whether it holds."""
        calls, once = len(SEARCHES) + 1, sum(count == 1 for count in self.results.values())
        found = f"{self.acknowledged} = {self.stored}"
        one = self.winners == self.resolutions == 1
        return [
            ("processes killed with SIGKILL at work = 2", str(self.kills), self.kills == 2),
            ("events acknowledged = stored", found, 0 < self.acknowledged == self.stored),
            ("gaps in the numbers = 0", str(self.gaps), self.gaps == 0),
            ("calls with exactly one result = all", f"{once} of {calls}", once == len(self.results) == calls),
            ("winners of the race = 1", f"{self.winners}, in the log {self.resolutions}", one),
        ]

    @property
    def holds(self) -> bool:
        return all(holds for _, _, holds in self.checks)


def prove(lives: Sequence[Life], outcomes: dict[str, Told], events: Sequence[Event]) -> Proof:
    """Compare what the processes were told with what the log has."""
    acknowledged: dict[int, str] = {}
    for heard in [*(life.acknowledged for life in lives), *(told.acknowledged for told in outcomes.values())]:
        acknowledged |= heard
    log = {event.seq: event.data.decode() for event in events}
    return Proof(
        kills=sum(life.killed for life in lives),
        acknowledged=len(acknowledged),
        stored=sum(log.get(seq) == data for seq, data in acknowledged.items()),
        gaps=sum(event.seq != number for number, event in enumerate(events, 1)),
        results=dict(
            Counter(json.loads(event.data)["call_id"] for event in events if event.type == "tool_result")
        ),
        winners=sum(outcome.doing == "won" for outcome in outcomes.values()),
        resolutions=sum(event.type == "resolution" for event in events),
    )


async def read(url: str) -> list[Event]:
    async with connect(url) as store:
        return await store.events(TRIP)


# What people see.


def describe(event: Event) -> str:
    """An event in a few words."""
    match decode(event.type, event.data):
        case Input(parts):
            return f"person: {''.join(part.text for part in parts if isinstance(part, Text))}"
        case Message() as message:
            return message.text or f"calls {', '.join(call.name for call in message.calls)}"
        case ToolStarted(call_id, attempt):
            return f"{call_id} started" + (", again, under the same id" if attempt > 1 else "")
        case ToolResult(call_id, _, parts):
            return f"{call_id}: {''.join(part.text for part in parts if isinstance(part, Text))}"
        case Suspension(_, _, _, _, prompt):
            return f"waits for a person: {prompt}"
        case Resolution(_, _, decision, actor=actor):
            return f"{decision} by {actor}"
        case other:
            return type(other).__name__


class Stage:
    """Prints: in colour on a terminal, as plain text elsewhere and with NO_COLOR."""

    def __init__(self) -> None:
        try:
            from rich.console import Console
        except ImportError:
            sys.exit("the demo needs a package for its colours: pip install 'holdfast[cli]'")
        self._plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
        self._console = Console(
            highlight=False,
            color_system=None if self._plain else "auto",
            width=None if sys.stdout.isatty() else 100,
        )
        self._before: list[Event] = []

    def say(self, text: str = "", style: str | None = None) -> None:
        self._console.print(text, style=style, markup=False)

    def scene(self, number: int, title: str) -> None:
        self.say()
        self.say(f"{number}. {title}", "bold cyan")

    def log(self, title: str, events: list[Event], *, whole: bool = False) -> None:
        """What is new in the log, or the whole of it; the long plan is cut short."""
        table = self._table(title, "seq", "event", "what it says")
        known = 0 if whole else len(self._before)
        if known:
            same = events[:known] == self._before
            said = "as before, byte for byte" if same else "NOT AS BEFORE"
            table.add_row(f"1-{known}", "", said, style="dim" if same else "bold red")
        lines = [(event, describe(event)) for event in events[known:]]
        plan = [event.seq for event, text in lines if text.startswith("Plan, line")]
        hidden = set(plan[2:-2])
        for event, text in lines:
            if event.seq not in hidden:
                table.add_row(str(event.seq), event.type, text)
            elif event.seq == plan[2]:
                table.add_row("...", "", f"{len(hidden)} more lines", style="dim")
        self._before = events
        self._console.print(table)

    def proof(self, proof: Proof) -> None:
        table = self._table("Proof", "what must hold", "found", "")
        for what, found, holds in proof.checks:
            table.add_row(what, found, "holds" if holds else "BROKEN", style="green" if holds else "bold red")
        self._console.print(table)

    def _table(self, title: str, *columns: str) -> Table:
        from rich import box
        from rich.table import Table

        table = Table(
            title=title,
            title_justify="left",
            title_style="bold",
            box=box.ASCII if self._plain else box.ROUNDED,
        )
        for column in columns:
            table.add_column(column, overflow="fold")
        return table


def play(stage: Stage, url: str) -> Proof:
    """The whole story."""
    stage.say("Holdfast: a conversation that is killed twice and goes on", "bold")
    stage.say(f"Real processes, real SIGKILLs, one file: {url}")

    def act(number: int, title: str, until: str | None = None) -> Life:
        stage.scene(number, title)
        life = live(url, until)
        events = asyncio.run(read(url))
        if life.killed:
            stage.say(f"   SIGKILL while {life.doing}.", "bold red")
        stage.say(f"   The store had acknowledged {len(life.acknowledged)} events to this process.")
        if len(events) > max(life.acknowledged, default=0):
            stage.say("   One more is there: its commit was under way, and nobody had been told.", "yellow")
        stage.log(f"The log after process {number}", events)
        return life

    lives = [
        act(1, "A process starts to plan the trip", f"running {SEARCHES[1][0]}"),
        act(2, "Another one reads the log and goes on where it was", f"writing line {KILLED_AT}"),
        act(3, "The third one finishes, and waits for a person"),
    ]
    stage.scene(4, "Two browsers approve at the same moment")
    outcomes = race(url, "the laptop", "the phone")
    for name, told in outcomes.items():
        won = told.doing == "won"
        stage.say(f"   {name} {'won' if won else 'came too late: StaleCall'}", "green" if won else "yellow")
    lives.append(act(5, "A last process books, once"))
    events = asyncio.run(read(url))
    stage.say()
    stage.log("The whole log", events, whole=True)
    return prove(lives, outcomes, events)


def main() -> int:
    """Play, and show whether all of it held."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    stage = Stage()
    proof = play(stage, f"sqlite:///{FOLDER}/agents.db")
    stage.say()
    stage.proof(proof)
    return 0 if proof.holds else 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agent", url]:
            asyncio.run(be_agent(url))
        case ["browser", url, who]:
            asyncio.run(be_browser(url, who))
        case _:
            sys.exit(main())
