"""The workloads, in the order they run."""

from __future__ import annotations

from benchmarks.bench import Workload
from benchmarks.workloads.append import ALONE, AT_ONCE
from benchmarks.workloads.crowd import FIND
from benchmarks.workloads.imports import IMPORTS
from benchmarks.workloads.load import COLD, LOAD
from benchmarks.workloads.turn import BYTES, TURN

WORKLOADS: tuple[Workload, ...] = (ALONE, AT_ONCE, TURN, BYTES, LOAD, COLD, FIND, IMPORTS)


def workload_named(name: str) -> Workload:
    """The workload of that name."""
    return next(workload for workload in WORKLOADS if workload.name == name)
