"""What Holdfast sets itself to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from benchmarks.plan import Plan
from benchmarks.results import Results

OURS = "holdfast"
UNSEARCHABLE = "holdfast, no search"


@dataclass(frozen=True)
class Target:
    """
    A bound for one number.

    With ``to_subject`` the bound is for the ratio to another subject's same number, with
    ``to_measure`` for the ratio to the same subject's other number, otherwise for the number itself.
    """

    workload: str
    measure: str
    sign: Literal["≥", "≤", "<"]
    bound: float
    to_subject: str | None = None
    to_measure: str | None = None
    subject: str = OURS

    def rounds(self, results: Results) -> list[float]:
        """Where Holdfast stands in each round; nothing if it was not measured. The median decides."""
        here = (self.workload, self.subject, self.measure)
        if self.to_subject is not None:
            return results.ratios(here, (self.workload, self.to_subject, self.measure))
        if self.to_measure is not None:
            return results.ratios(here, (self.workload, self.subject, self.to_measure))
        return results.rounds(*here)

    def reached(self, value: float) -> bool:
        match self.sign:
            case "≥":
                return value >= self.bound
            case "≤":
                return value <= self.bound
            case "<":
                return value < self.bound


def sqlite_targets(plan: Plan) -> tuple[Target, ...]:
    """The targets for SQLite files."""
    least, most = str(min(plan.fill_sizes)), str(max(plan.fill_sizes))
    few, many = str(min(plan.crowds)), str(max(plan.crowds))
    return (
        Target("W1", "rate", "≥", 0.6, to_subject="raw"),
        Target("W2", "rate", "≥", 4, to_subject="raw"),
        *(Target("W3", f"turn_{size}", "<", 0.5, to_subject="raw") for size in plan.fill_sizes),
        Target("W3", f"turn_{most}", "≤", 1.15, to_measure=f"turn_{least}"),
        *(Target("W3-bytes", name, "≤", 2, subject=OURS) for name in ("grown", "filled")),
        *(Target("W3-bytes", name, "≤", 1.35, subject=UNSEARCHABLE) for name in ("grown", "filled")),
        Target("W4", "all", "≤", 0.6, to_subject="raw-thread"),
        Target("W4", "newest", "≤", 1.2, to_subject="raw-thread"),
        *(Target("W6", f"list_{size}", "≤", 1.2, to_subject="raw-thread") for size in plan.crowds),
        Target("W6", f"list_{many}", "≤", 1.3, to_measure=f"list_{few}"),
        Target("W7", "package_ms", "≤", 60),
    )


def _server_targets(
    plan: Plan, *, alone: float | None = None, at_once: float | None = None
) -> tuple[Target, ...]:
    least, most = str(min(plan.fill_sizes)), str(max(plan.fill_sizes))
    rates = (("W1", alone), ("W2", at_once))
    return (
        *(Target(name, "rate", "≥", bound, to_subject="raw") for name, bound in rates if bound is not None),
        Target("W3", f"turn_{most}", "≤", 1.3, to_measure=f"turn_{least}"),
    )


TARGETS: dict[str, Callable[[Plan], tuple[Target, ...]]] = {
    "sqlite": sqlite_targets,
    "postgres": partial(_server_targets, alone=0.75, at_once=4),
    "mysql": partial(_server_targets, alone=0.6, at_once=3),
    "redis": partial(_server_targets, alone=0.85, at_once=0.5),
    "objects": _server_targets,
}
