"""W7: what an import costs, over a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
from time import perf_counter

from benchmarks.bench import Bench, Measure, Samples, Workload

_PROBE = """
import os, time
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
pages = int(open("/proc/self/statm").read().split()[1])
print(seconds, pages * os.sysconf("SC_PAGE_SIZE"))
"""
_MOST = 5


async def _imports(bench: Bench) -> Samples:
    _, bare = _probe("pass", budget=bench.plan.budget)
    samples: Samples = {}
    for name, statement in (("package", bench.entry.package), ("store", bench.entry.imports)):
        if statement is not None:
            seconds, memory = _probe(statement, budget=bench.plan.budget)
            samples[f"{name}_ms"] = seconds * 1e3
            samples[f"{name}_mb"] = (memory - bare) / 2**20
    return samples


def _probe(statement: str, *, budget: float) -> tuple[float, float]:
    """Median seconds and bytes of a statement in fresh interpreters; one is enough if it is slow."""
    runs: list[tuple[float, float]] = []
    start = perf_counter()
    while len(runs) < _MOST and (not runs or perf_counter() - start < budget):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _PROBE.format(statement=statement)],
            check=True,
            capture_output=True,
            text=True,
        )
        seconds, memory = done.stdout.split()[-2:]
        runs.append((float(seconds), float(memory)))
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


IMPORTS = Workload(
    "W7",
    "import, over a bare interpreter",
    _imports,
    lambda plan: (
        Measure("package_ms", "the package", "ms", "less"),
        Measure("package_mb", "the package", "MB", "less"),
        Measure("store_ms", "the package and its store", "ms", "less"),
        Measure("store_mb", "the package and its store", "MB", "less"),
    ),
    compared=False,
)
