"""The words that workloads, workers and reports share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.plan import Kind, Plan
from benchmarks.subject import Subject

Samples = dict[str, float]


@dataclass(frozen=True)
class Entry:
    """
    A subject in the line-up of a store.

    ``target`` is its class as ``module:name``. ``package`` and ``imports`` are the statements
    that W7 times: the bare package, and all that a program needs to store its first message.
    ``files_of`` names the subject whose filled files it can read.
    """

    name: str
    target: str
    kind: Kind
    note: str
    workloads: frozenset[str]
    imports: str
    package: str | None = None
    slow: bool = False
    files_of: str | None = None


@dataclass(frozen=True)
class Fixture:
    """A filled store: one ``log`` of that many events, or a ``crowd`` of that many conversations."""

    shape: Literal["log", "crowd"]
    size: int

    @property
    def name(self) -> str:
        return f"{self.shape}-{self.size}"


@dataclass(frozen=True)
class Bench:
    """
    What a workload is given in its fresh process.

    ``directory`` is empty. ``fixtures`` are the filled directories by name, private copies if the
    workload writes to files. ``asked_at`` is the wall-clock time at which the process was started.
    """

    entry: Entry
    plan: Plan
    directory: Path
    fixtures: dict[str, Path]
    make: Callable[[Path], Subject[Any]]
    asked_at: float


@dataclass(frozen=True)
class Measure:
    """One number that a workload yields."""

    name: str
    label: str
    unit: str
    better: Literal["more", "less", "neither"]


@dataclass(frozen=True)
class Workload:
    """
    Something to measure, whoever does it.

    ``compared`` tells whether ratios to the bare driver mean something. ``steady`` marks what comes
    out the same each time, so that one round is enough.
    """

    name: str
    title: str
    run: Callable[[Bench], Awaitable[Samples]]
    measures: Callable[[Plan], tuple[Measure, ...]]
    fixtures: Callable[[Plan], tuple[Fixture, ...]] = field(default=lambda plan: ())
    writes: bool = False
    compared: bool = True
    steady: bool = False
