"""
The crash harness: processes that write are killed with SIGKILL, and the store is looked through.

Every commit has several events, a call, a record, a tag and the header in it, all marked. Each
child reports a commit after the store acknowledged it. When all of a round's children are dead the
store is opened again: what was acknowledged must be there once and as it was written, nothing may
be there in part, numbers have no gaps, and what was under way is repeated with its token.

A killed process proves that a commit is not held back in memory. It proves nothing about loss of
power: what was handed to the operating system outlives the process. ``holdfast.testing.sync`` is
about that.

As a command, against any store that other processes can reach::

    python -m holdfast.testing.crash sqlite:////tmp/crash.db --kills 200 --writers 4
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import os
import random
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import urlsplit

import msgspec
import pytest

from holdfast.errors import HoldfastError
from holdfast.model.records import Commit
from holdfast.store import Store, connect
from holdfast.testing import crash_child, vfs
from holdfast.testing.crash_child import Acknowledged, Death, Line, Orders, Plan, Reached, Trying
from holdfast.testing.ledger import Answer, Findings, examine

ANY_TIME = "at any time"
LONGEST_LIFE = 0.12
PATIENCE = 30.0
_CONVERSATIONS = 3
_ROUNDS_A_SET = 8
_REPEATED = 2
_AHEAD = 2
_SHOWN = 12


class CrashError(RuntimeError):
    """The harness could not do its work: a child failed by itself, or never came to its end."""


class Points(msgspec.Struct, frozen=True):
    """
    Named places inside a store where a child can be made to die.

    ``install(reach, url)`` runs in the child before the store is opened, and arranges that
    ``reach(name)`` is called whenever the store comes by. Its file is loaded on its own, so it
    should import little::

        def install(reach, url):
            flush = MyStore._flush
            MyStore._flush = lambda self: (reach("before the flush"), flush(self))

        POINTS = Points(("before the flush",), install)
    """

    names: tuple[str, ...]
    install: Callable[[Callable[[str], None], str], None]


POINTS = {"sqlite": Points(vfs.POINTS, vfs.install_points)}
"""The points of the stores that come with Holdfast, by the scheme of their URLs."""


class CrashReport(msgspec.Struct):
    """
    What a run found.

    ``kills`` counts children that were alive and writing when SIGKILL hit them, ``interrupted``
    those among them that had a commit under way; ``opening`` those that were hit before they could
    write. ``unanswered`` commits were under way; of those, ``kept`` were in the store all the same,
    which is allowed. All of them, and some that had been acknowledged, were ``repeated`` with their
    token.
    """

    kills: int = 0
    opening: int = 0
    interrupted: int = 0
    points: Counter[str] = msgspec.field(default_factory=Counter)
    acknowledged: int = 0
    found: int = 0
    unanswered: int = 0
    kept: int = 0
    repeated: int = 0
    findings: Findings = msgspec.field(default_factory=Findings)
    seconds: float = 0.0

    @property
    def lost(self) -> int:
        """Acknowledged, and not there."""
        return len(self.findings.lost)

    @property
    def half(self) -> int:
        """There in part."""
        return len(self.findings.half)

    @property
    def ok(self) -> bool:
        """Whether the store kept its word."""
        return self.found == self.acknowledged and not self.findings.problems

    def table(self) -> str:
        """The numbers, for people."""
        rows: list[tuple[str, object]] = [
            ("kills of a writing process", self.kills),
            *((f"  {point}", count) for point, count in sorted(self.points.items())),
            ("  with a commit under way", self.interrupted),
            ("kills of a process that opened", self.opening),
            ("commits acknowledged", self.acknowledged),
            ("  found again", self.found),
            ("  lost", self.lost),
            ("commits unanswered", self.unanswered),
            ("  kept all the same", self.kept),
            ("commits repeated with their token", self.repeated),
            ("half there", self.half),
            ("there twice", len(self.findings.twice)),
            ("with wrong content or answer", len(self.findings.wrong)),
            ("gaps", len(self.findings.gaps)),
            ("seconds", f"{self.seconds:.1f}"),
        ]
        return "\n".join(f"{name:<36}{value:>10}" for name, value in rows)


async def crash(
    url: str,
    *,
    kills: int = 200,
    writers: int = 4,
    tasks: int = 3,
    points: Points | None = None,
    prepare: Callable[[], None] | None = None,
    seed: int | None = None,
    progress: Callable[[CrashReport], None] | None = None,
) -> CrashReport:
    """
    Kill writing processes until ``kills`` of them are dead, and report what the store has.

    Args:
        url: A store that any process can open.
        writers: Processes that write to the same conversations at once.
        tasks: Commits that each of them has under way at once, at most.
        points: Where to kill inside a commit; known for the stores that come with Holdfast.
        prepare: A function that each child calls first, for instance to break the store.
        progress: Called after each round.

    Raises:
        CrashError: A child failed by itself; its error is in the message.
    """
    run = _Run(url, writers, tasks, points or POINTS.get(urlsplit(url).scheme), prepare, random.Random(seed))
    started = time.monotonic()
    async with run.children():
        while run.report.kills < kills:
            await run.round(min(writers, kills - run.report.kills))
            run.report.seconds = time.monotonic() - started
            if progress is not None:
                progress(run.report)
    await run.finish()
    run.report.seconds = time.monotonic() - started
    return run.report


class _Child:
    """What the parent knows of one child."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.tried: dict[str, Plan] = {}
        self.answers: dict[str, Answer] = {}
        self.reached: str | None = None

    @property
    def unanswered(self) -> list[Plan]:
        return [plan for marker, plan in self.tried.items() if marker not in self.answers]

    async def follow(self, orders: Orders, life: float) -> None:
        """Give the orders, listen until the child is dead, and kill it if it does not do so itself."""
        stdin, stdout, stderr = self.process.stdin, self.process.stdout, self.process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        stdin.write(msgspec.json.encode(orders) + b"\n")
        errors = asyncio.create_task(stderr.read())
        timer = None
        decode = msgspec.json.Decoder(Line).decode
        try:
            async with asyncio.timeout(PATIENCE):
                while raw := await stdout.readline():
                    self._note(decode(raw))
                    if timer is None and orders.death is None:
                        timer = asyncio.get_running_loop().call_later(life, self.process.kill)
        except TimeoutError:
            self.process.kill()
            raise CrashError(
                f"a child lived for {PATIENCE:.0f} seconds; it was to die {_said(orders)}"
            ) from None
        finally:
            if timer is not None:
                timer.cancel()
            code = await self.process.wait()
            said = (await errors).decode(errors="replace")
        if code != -signal.SIGKILL or not (self.tried or self.reached):
            raise CrashError(f"a child ended by itself with code {code}:\n{said}")

    def _note(self, line: Line) -> None:
        match line:
            case Trying(plan):
                self.tried[plan.marker] = plan
            case Acknowledged(marker, commit):
                self.answers[marker] = Answer(self.tried[marker], commit)
            case Reached(point):
                self.reached = point


class _Run:
    def __init__(
        self,
        url: str,
        writers: int,
        tasks: int,
        points: Points | None,
        prepare: Callable[[], None] | None,
        rng: random.Random,
    ) -> None:
        self.report = CrashReport()
        self._url, self._writers, self._tasks, self._rng = url, writers, tasks, rng
        self._inside = points.names if points else ()
        self._names = (crash_child.BEFORE, crash_child.ANSWERED, crash_child.TOLD, *self._inside)
        self._points = None if points is None else _place(points.install)
        self._prepare = None if prepare is None else _place(prepare)
        self._owner = f"crash-{os.urandom(4).hex()}"
        self._answers: dict[str, Answer] = {}
        self._conversations: list[str] = []
        self._spares: list[Process] = []
        self._rounds = self._deaths = 0

    @contextlib.asynccontextmanager
    async def children(self) -> AsyncIterator[None]:
        """Have the children of the next round start while the ones of this round write."""
        try:
            yield
        finally:
            for process in self._spares:
                process.kill()
                await process.communicate()

    async def round(self, count: int) -> None:
        """Let children write until all of them are dead, then look through the store."""
        if self._rounds % _ROUNDS_A_SET == 0:
            ids = (f"c{self._rounds}-{n}" for n in range(_CONVERSATIONS))
            self._conversations.extend(ids)
        self._rounds += 1
        together = tuple(self._conversations[-_CONVERSATIONS:])
        await self._start(count - len(self._spares))
        spares, self._spares = self._spares, []
        children = [_Child(process) for process in spares[:count]]
        self._spares = spares[count:]
        ahead = asyncio.create_task(self._start(self._writers + _AHEAD - len(self._spares)))
        lives = [
            asyncio.create_task(child.follow(self._orders(together), self._rng.uniform(0, LONGEST_LIFE)))
            for child in children
        ]
        outcomes = await asyncio.gather(*lives, ahead, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        for child in children:
            self._count(child)
        async with connect(self._url) as store:
            await self._check(store, together, children)

    async def finish(self) -> None:
        """Look through everything that was ever written."""
        async with connect(self._url) as store:
            findings = await examine(store, self._owner, self._conversations, self._answers)
        self.report.findings.add(findings)
        self.report.acknowledged = len(self._answers)
        self.report.found = sum(marker in findings.whole for marker in self._answers)

    async def _start(self, count: int) -> None:
        # The children find what this process can import, also where it was told so by hand.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", crash_child.__file__), stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env
            )
            self._spares.append(process)

    def _orders(self, conversations: tuple[str, ...]) -> Orders:
        self._deaths += 1
        death = None
        nth = 1 + int(self._rng.expovariate(1 / 15))
        if self._inside and self._deaths % 10 == 5:
            death = Death(self._rng.choice(self._inside), nth, opening=True)
        elif self._deaths % 2 == 0:
            # Every second one at the points in turn, the others by chance.
            death = Death(self._names[self._deaths // 2 % len(self._names)], nth)
        return Orders(
            url=self._url,
            owner=self._owner,
            writer=f"{self._rounds}w{self._deaths}",
            conversations=conversations,
            tasks=self._rng.randint(1, self._tasks),
            death=death,
            points=self._points,
            prepare=self._prepare,
        )

    def _count(self, child: _Child) -> None:
        report, unanswered = self.report, child.unanswered
        if not child.tried:
            report.opening += 1
            return
        report.kills += 1
        report.points[child.reached or ANY_TIME] += 1
        report.interrupted += bool(unanswered)
        report.unanswered += len(unanswered)
        self._answers.update(child.answers)
        report.acknowledged = len(self._answers)

    async def _check(self, store: Store, conversations: Sequence[str], children: list[_Child]) -> None:
        here = {m: answer for m, answer in self._answers.items() if answer.plan.conversation in conversations}
        findings = await examine(store, self._owner, conversations, here)
        self.report.findings.add(findings)
        for child in children:
            for plan in child.unanswered:
                kept = findings.whole.get(plan.marker)
                self.report.kept += kept is not None
                if (commit := await self._repeat(store, plan)) is not None:
                    self._answers[plan.marker] = Answer(plan, commit)
                    if kept not in (None, commit.seqs):
                        self._blame(plan, f"with {commit.seqs}; it is at {kept}")
            for answer in [*child.answers.values()][-_REPEATED:]:
                commit = await self._repeat(store, answer.plan)
                if commit not in (None, answer.commit):
                    self._blame(answer.plan, f"with {commit}; it was {answer.commit}")

    async def _repeat(self, store: Store, plan: Plan) -> Commit | None:
        self.report.repeated += 1
        try:
            return await plan.commit(store, self._owner)
        except HoldfastError as exc:
            self._blame(plan, f"with {type(exc).__name__}: {exc}")
            return None

    def _blame(self, plan: Plan, answer: str) -> None:
        wrong = f"{plan.marker}, repeated with its token, was answered {answer}"
        self.report.findings.wrong[plan.marker] = wrong


def _said(orders: Orders) -> str:
    return f"{orders.death.point}, time {orders.death.nth}" if orders.death else "by the parent's hand"


def _place(function: Callable[..., None]) -> str:
    """A function as ``file.py:name``, for a child that loads the file."""
    return f"{inspect.getfile(function)}:{function.__name__}"


class CrashConformance:
    """
    The harness as tests. Inherit it and give a fixture ``url``, with an empty store behind it::

        class TestMyStoreCrashes(CrashConformance):
            points = Points(("before the flush",), install)

            @pytest.fixture
            def url(self, tmp_path: Path) -> str:
                return f"mystore:///{tmp_path}/crash"
    """

    kills = 20
    points: Points | None = None

    @pytest.mark.parametrize("writers", [1, 4])
    def test_what_was_acknowledged_survives_sigkill_once_and_whole(self, url: str, writers: int) -> None:
        """L3, L5"""
        report = asyncio.run(crash(url, kills=self.kills, writers=writers, points=self.points))

        assert not report.findings.problems, "\n".join(report.findings.problems[:_SHOWN])
        assert report.found == report.acknowledged > 0
        assert report.kills == self.kills
        assert report.interrupted > 0
        assert report.points.keys() >= set(self.points.names if self.points else ())


def main(argv: Sequence[str] | None = None) -> int:
    """Kill processes that write to a store, and show what it kept."""
    parser = argparse.ArgumentParser("python -m holdfast.testing.crash", description=main.__doc__)
    parser.add_argument(
        "url", nargs="?", help="a store that any process can open (SQLite in a temporary folder)"
    )
    parser.add_argument("--kills", type=int, default=200, help="how many processes to kill (200)")
    parser.add_argument("--writers", type=int, default=4, help="how many write at once (4)")
    parser.add_argument("--tasks", type=int, default=3, help="commits under way at once in each, at most (3)")
    parser.add_argument("--seed", type=int, help="choose the same deaths again")
    args = parser.parse_args(argv)

    def progress(report: CrashReport) -> None:
        line = f"{report.kills:>5} of {args.kills} killed, {report.acknowledged:,} acknowledged, {report.lost} lost, {report.half} half"
        sys.stdout.write(f"\r{line}" if sys.stdout.isatty() else f"{line}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as folder:
        url = args.url or f"sqlite:///{folder}/crash.db"
        options = {name: getattr(args, name) for name in ("kills", "writers", "tasks", "seed")}
        report = asyncio.run(crash(url, **options, progress=progress))
    problems = report.findings.problems
    sys.stdout.write(f"\n{report.table()}\n")
    for problem in problems[:_SHOWN]:
        sys.stdout.write(f"  {problem}\n")
    sys.stdout.write("the store kept its word\n" if report.ok else f"BROKEN: {len(problems)} problems\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
