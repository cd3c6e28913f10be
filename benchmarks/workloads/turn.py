"""W3: what one more turn costs when the log is long, and what a log weighs on disk."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from time import perf_counter

from benchmarks.bench import Bench, Fixture, Measure, Samples, Workload
from benchmarks.disk import FILLED, stored_bytes
from benchmarks.messages import json_bytes, make_turns
from benchmarks.plan import Plan

_BLOCKS = 6
"""Timed ones; one more goes before them to warm up."""


async def _turns(bench: Bench) -> Samples:
    sizes, block = bench.plan.fill_sizes, bench.plan.block
    subjects = {size: bench.make(bench.fixtures[Fixture("log", size).name]) for size in sizes}
    turns = make_turns(block * (_BLOCKS + 1), seed=2)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for subject in subjects.values():
        await subject.open()
        await subject.resume("c0", bench.plan.newest)
        await subject.settle()

    for number in range(_BLOCKS + 1):
        # The sizes take turns in one process, so that a busy moment of the machine hits them all.
        for size, subject in subjects.items():
            if sum(times[size]) * block > bench.plan.budget:
                continue
            prepared = [subject.prepare(turn) for turn in turns[number * block : (number + 1) * block]]
            start = perf_counter()
            for turn in prepared:
                await subject.turn("c0", turn)
            await subject.settle()
            if number:
                times[size].append((perf_counter() - start) / block)

    for subject in subjects.values():
        await subject.close()
    return {f"turn_{size}": statistics.median(times[size]) * 1e3 for size in sizes}


async def _bytes(bench: Bench) -> Samples:
    subject = bench.make(bench.directory)
    turns = make_turns(bench.plan.grown_turns, seed=3)
    await subject.open()
    await subject.create("c0")
    for turn in turns:
        await subject.turn("c0", subject.prepare(turn))
    await subject.settle()
    await subject.close()
    grown = sum(json_bytes(turn) for turn in turns)
    largest = bench.fixtures[_largest(bench.plan)[0].name]
    return {
        "grown": stored_bytes(bench.directory) / grown,
        "filled": stored_bytes(largest) / _filled_with(largest),
    }


def _filled_with(directory: Path) -> int:
    size: int = json.loads((directory / FILLED).read_text())["json_bytes"]
    return size


def _logs(plan: Plan) -> tuple[Fixture, ...]:
    return tuple(Fixture("log", size) for size in plan.fill_sizes)


def _largest(plan: Plan) -> tuple[Fixture, ...]:
    return (Fixture("log", max(plan.fill_sizes)),)


TURN = Workload(
    "W3",
    "one more turn of 4 events",
    _turns,
    lambda plan: tuple(
        Measure(f"turn_{size}", f"a turn at {size:,} events", "ms", "less") for size in plan.fill_sizes
    ),
    fixtures=_logs,
    writes=True,
)
BYTES = Workload(
    "W3-bytes",
    "bytes on disk for a byte of JSON",
    _bytes,
    lambda plan: (
        Measure("grown", f"grown by {plan.grown_turns:,} turns", "×", "less"),
        Measure("filled", f"filled with {max(plan.fill_sizes):,} events", "×", "less"),
    ),
    fixtures=_largest,
    steady=True,
)
