"""What was measured: medians over rounds, and ratios taken inside each round."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from benchmarks.bench import Entry, Measure, Samples

_Rounds = dict[int, float]


class Results:
    """Samples by workload, subject and measure, one a round."""

    def __init__(self) -> None:
        self._samples: defaultdict[tuple[str, str, str], _Rounds] = defaultdict(dict)

    def add(self, workload: str, subject: str, number: int, samples: Samples) -> None:
        """Take in what one round of a subject measured."""
        for measure, value in samples.items():
            self._samples[workload, subject, measure][number] = value

    def rounds(self, workload: str, subject: str, measure: str) -> list[float]:
        """The values of each round, in order."""
        return list(self._samples.get((workload, subject, measure), {}).values())

    def median(self, workload: str, subject: str, measure: str) -> float | None:
        """The median over the rounds, or None if this was not measured."""
        values = self.rounds(workload, subject, measure)
        return statistics.median(values) if values else None

    def ratios(self, above: tuple[str, str, str], below: tuple[str, str, str]) -> list[float]:
        """One (workload, subject, measure) divided by another, in each round that has both."""
        values, others = self._samples.get(above, {}), self._samples.get(below, {})
        return [value / others[n] for n, value in values.items() if others.get(n)]

    def ratio(self, above: tuple[str, str, str], below: tuple[str, str, str]) -> float | None:
        """
        The median over the rounds of the ratios inside each.

        Noise that lasts longer than a round cancels out, which a ratio of medians would keep.
        """
        ratios = self.ratios(above, below)
        return statistics.median(ratios) if ratios else None

    def best_peer(self, workload: str, measure: Measure, entries: Iterable[Entry]) -> str | None:
        """The peer with the best median, or None where no peer was measured or nothing is better."""
        medians = {
            entry.name: value
            for entry in entries
            if entry.kind == "peer" and (value := self.median(workload, entry.name, measure.name)) is not None
        }
        if not medians or measure.better == "neither":
            return None
        choose = max if measure.better == "more" else min
        return choose(medians, key=lambda name: medians[name])
