"""Running all measurements: each in a fresh process, subjects taking turns inside each round."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bench import Entry, Fixture, Samples, Workload
from benchmarks.environment import HERE
from benchmarks.machine import sync_ms
from benchmarks.plan import Plan
from benchmarks.results import Results
from benchmarks.subjects import on_server
from benchmarks.worker import Job

_TIMEOUT = 900.0


@dataclass(frozen=True)
class Step:
    """One process to start: a fill, or a measurement of one round."""

    entry: Entry
    workload: Workload
    round: int = 0
    fixtures: tuple[Fixture, ...] = ()

    def __str__(self) -> str:
        if self.fixtures:
            names = ", ".join(fixture.name for fixture in self.fixtures)
            return f"{self.workload.name}: fill {names} for {self.entry.name}"
        return f"{self.workload.name}, round {self.round + 1}: {self.entry.name}"


class Runner:
    """
    Runs steps one after the other below a scratch directory and collects what they measure.

    ``disk`` is a directory on the disk that the data ends on.
    """

    def __init__(
        self,
        store: str,
        *,
        quick: bool,
        repeats: int,
        peers: Path | None,
        scratch: Path,
        disk: Path,
    ) -> None:
        self._store = store
        self._quick = quick
        self._repeats = repeats
        self._peers = peers
        self._scratch = scratch
        self._disk = disk
        self.failures: dict[tuple[str, str], str] = {}
        self.syncs: list[float] = []
        """Milliseconds of a sync before each round, to see whether the disk was the same for all."""

    def run(self, workloads: Sequence[Workload], entries: Sequence[Entry], plan: Plan) -> Results:
        """Do every step, saying on stderr which; a subject that fails is left out of that workload."""
        steps = list(self._steps(workloads, entries, plan))
        results = Results()
        probed: tuple[str, int] | None = None
        for number, step in enumerate(steps, 1):
            where = (step.workload.name, step.entry.name)
            if where in self.failures:
                continue
            print(f"[{number}/{len(steps)}] {step} …", end=" ", file=sys.stderr, flush=True)
            if probed != (probed := (step.workload.name, step.round)):
                self.syncs.append(sync_ms(self._disk))
            start = time.perf_counter()
            samples = self._start(step)
            print(f"{time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
            if isinstance(samples, str):
                print(f"  failed: {samples}", file=sys.stderr, flush=True)
                self.failures[where] = samples
                for fixture in step.fixtures:
                    # Half a fixture must not be measured by a later workload.
                    shutil.rmtree(self._filled(step) / fixture.name, ignore_errors=True)
            elif not step.fixtures:
                results.add(step.workload.name, step.entry.name, step.round, samples)
        return results

    def _steps(self, workloads: Sequence[Workload], entries: Sequence[Entry], plan: Plan) -> Iterator[Step]:
        filled: set[tuple[Path, str]] = set()
        for workload in workloads:
            taking_part = [
                entry
                for entry in entries
                if workload.name in entry.workloads and plan.includes(entry.kind, workload.name)
            ]
            for entry in taking_part:
                files = self._filled(Step(entry, workload))
                needed = workload.fixtures(plan.capped(entry.kind, slow=entry.slow))
                missing = tuple(fixture for fixture in needed if (files, fixture.name) not in filled)
                filled.update((files, fixture.name) for fixture in missing)
                if missing:
                    yield Step(entry, workload, fixtures=missing)
            for number in range(1 if workload.steady else self._repeats):
                for entry in taking_part:
                    yield Step(entry, workload, number)

    def _start(self, step: Step) -> Samples | str:
        """Run one step in its own process; the reason if it fails."""
        entry = step.entry
        with TemporaryDirectory(dir=self._scratch) as fresh:
            answer = Path(fresh) / "answer.json"
            directory = Path(fresh) / "data"
            directory.mkdir()
            job = Job(
                store=self._store,
                subject=entry.name,
                quick=self._quick,
                directory=str(directory),
                filled=str(self._filled(step)),
                answer=str(answer),
                asked_at=time.time(),
                workload=step.workload.name,
                fixtures=tuple((fixture.shape, fixture.size) for fixture in step.fixtures),
            )
            python = str(self._peers) if entry.kind == "peer" else sys.executable
            try:
                done = subprocess.run(
                    [python, "-m", "benchmarks.worker", job.to_json()],
                    cwd=HERE.parent,
                    capture_output=True,
                    text=True,
                    timeout=_TIMEOUT,
                )
            except subprocess.TimeoutExpired:
                return f"took longer than {_TIMEOUT:.0f} s"
            if done.returncode or not answer.exists():
                return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            samples: Samples = json.loads(answer.read_text())
            return samples

    def _filled(self, step: Step) -> Path:
        # What is on a server can't be copied as files can, so that who writes gets filled stores of its own.
        apart = on_server(self._store) and step.workload.writes
        folder = f"filled for {step.workload.name}" if apart else "filled"
        return self._scratch / folder / (step.entry.files_of or step.entry.name)
