"""The numbers as a Markdown table, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.bench import Entry, Measure, Workload
from benchmarks.plan import Plan
from benchmarks.results import Results
from benchmarks.targets import OURS, Target

Facts = Mapping[str, str | int]


class Report:
    """One run, ready to be shown. ``grows``: W3 wrote to the same logs in each round."""

    def __init__(
        self,
        results: Results,
        workloads: Sequence[Workload],
        entries: Sequence[Entry],
        plan: Plan,
        targets: Sequence[Target],
        *,
        facts: Facts,
        failures: Mapping[tuple[str, str], str],
        grows: bool,
    ) -> None:
        self._results = results
        self._workloads = workloads
        self._entries = entries
        self._plan = plan
        self._targets = targets
        self._facts = facts
        self._failures = failures
        self._grows = grows

    def markdown(self) -> str:
        """The table with what must be known to read it."""
        return "\n".join([*self._heading(), "", *self._table(), "", *self._notes()])

    def document(self) -> dict[str, Any]:
        """Every number by workload and name, with its ratios."""
        document: dict[str, Any] = {"run": dict(self._facts)}
        for workload, measure in self._rows():
            numbers = document.setdefault(workload.name, {})
            for entry in self._entries:
                value = self._results.median(workload.name, entry.name, measure.name)
                if value is not None:
                    numbers[f"{entry.name}: {measure.name}"] = self._number(
                        workload, measure, entry.name, value
                    )
        document["targets"] = [self._judged(target) for target in self._targets]
        document["failures"] = {f"{w}: {name}": reason for (w, name), reason in self._failures.items()}
        return document

    def _number(self, workload: Workload, measure: Measure, subject: str, value: float) -> dict[str, Any]:
        peer = self._results.best_peer(workload.name, measure, self._entries)
        return {
            "value": value,
            "unit": measure.unit,
            "rounds": self._results.rounds(workload.name, subject, measure.name),
            "to_raw": self._ratio(workload, measure, subject, self._baseline(workload)),
            "to_best_peer": self._ratio(workload, measure, subject, peer),
            "best_peer": peer,
        }

    def _judged(self, target: Target) -> dict[str, Any]:
        rounds = target.rounds(self._results)
        value = median(rounds) if rounds else None
        return {
            "workload": target.workload,
            "measure": target.measure,
            "subject": target.subject,
            "relative_to": target.to_subject or target.to_measure,
            "wanted": f"{target.sign} {target.bound:g}",
            "value": value,
            "rounds": rounds,
            "reached": None if value is None else target.reached(value),
        }

    def _ratio(self, workload: Workload, measure: Measure, subject: str, other: str | None) -> float | None:
        if other is None:
            return None
        return self._results.ratio(
            (workload.name, subject, measure.name), (workload.name, other, measure.name)
        )

    def _baseline(self, workload: Workload) -> str | None:
        """The bare driver that ratios refer to."""
        if not workload.compared:
            return None
        raw = (e.name for e in self._entries if e.kind == "raw" and workload.name in e.workloads)
        return next(raw, None)

    def _rows(self) -> Iterator[tuple[Workload, Measure]]:
        for workload in self._workloads:
            for measure in workload.measures(self._plan):
                yield workload, measure

    def _heading(self) -> Iterator[str]:
        yield ", ".join(f"{name} {value}" for name, value in self._facts.items())

    def _table(self) -> Iterator[str]:
        columns = [
            "",
            "measure",
            "unit",
            *(entry.name for entry in self._entries),
            "to raw",
            "to best peer",
            "target",
        ]
        yield _row(columns)
        yield _row(["---"] * 3 + ["---:"] * (len(columns) - 4) + ["---"])
        for workload, measure in self._rows():
            values = [
                self._results.median(workload.name, entry.name, measure.name) for entry in self._entries
            ]
            if all(value is None for value in values):
                continue
            peer = self._results.best_peer(workload.name, measure, self._entries)
            yield _row(
                [
                    workload.name.partition("-")[0],
                    _label(workload, measure),
                    measure.unit,
                    *(_shown(value) for value in values),
                    _times(self._ratio(workload, measure, OURS, self._baseline(workload))),
                    _times(self._ratio(workload, measure, OURS, peer)),
                    "; ".join(self._verdicts(workload, measure)),
                ]
            )

    def _verdicts(self, workload: Workload, measure: Measure) -> Iterator[str]:
        labels = {known.name: known.label for known in workload.measures(self._plan)}
        for target in self._targets:
            if (target.workload, target.measure) != (workload.name, measure.name):
                continue
            rounds = target.rounds(self._results)
            if not rounds:
                continue
            value = median(rounds)
            other = target.to_subject or (labels[target.to_measure] if target.to_measure else "")
            subject = f"{target.subject}: " if target.subject != OURS else ""
            wanted = f"{target.sign} {target.bound:g}{f' × {other}' if other else ''}"
            stands = f"{value:.3g}"
            if len(rounds) > 1:
                stands += f" [{min(rounds):.3g} to {max(rounds):.3g}]"
            yield f"{'✓' if target.reached(value) else '✗'} {subject}{stands} ({wanted})"

    def _notes(self) -> Iterator[str]:
        for workload in self._workloads:
            yield f"- {workload.name}: {workload.title}."
        for entry in self._entries:
            yield f"- {entry.name}: {entry.note}."
        capped = [entry.name for entry in self._entries if entry.kind == "peer"]
        slow = [entry for entry in self._entries if entry.slow]
        plan = self._plan
        yield f"- Sizes: W1 {plan.appends:,} appends, W2 {plan.each:,} each, W3 blocks of {plan.block} turns."
        if self._grows and any(workload.name == "W3" for workload in self._workloads):
            yield "- W3 goes on with the same logs in each round, so they grow by some hundred events."
        if capped:
            plan = self._plan.capped("peer", slow=False)
            yield (
                f"- Capped at {max(plan.fill_sizes):,} events and {max(plan.crowds):,} conversations: "
                f"{', '.join(capped)}."
            )
        if capped and self._plan.peers_in is not None:
            yield f"- Peers take part only in {', '.join(sorted(self._plan.peers_in))}, because this is a quick run."
        if slow:
            plan = self._plan.capped("peer", slow=True)
            weighed = any(workload.name == "W3-bytes" for workload in self._workloads)
            grown = f", W3 grown by {plan.grown_turns:,} turns" if weighed else ""
            yield (
                f"- Asked for less (W1 {plan.appends:,} appends, W2 {plan.each} each, W3 blocks of "
                f"{plan.block} turns{grown}): {', '.join(entry.name for entry in slow)}."
            )
        for (workload_name, subject), reason in self._failures.items():
            yield f"- {subject} failed in {workload_name}: {reason}"


def _label(workload: Workload, measure: Measure) -> str:
    return f"bytes: {measure.label}" if workload.name == "W3-bytes" else measure.label


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}×"


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
