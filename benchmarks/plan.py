"""How much of everything a run does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

Kind = Literal["ours", "raw", "peer"]


@dataclass(frozen=True)
class Plan:
    """
    Sizes of the workloads.

    ``fill_sizes`` are the log lengths at which a turn is timed, ``crowds`` the numbers of
    conversations among which one is found. Turns are timed in blocks, so that what is done later
    for many of them is paid once a block. ``budget`` is how many seconds a timed loop may go on
    once it has its least number of samples. Peers take part in ``peers_in`` (None: everywhere).
    """

    appends: int = 2000
    writers: int = 64
    each: int = 50
    fill_sizes: tuple[int, ...] = (100, 1000, 10_000, 100_000)
    block: int = 20
    grown_turns: int = 1000
    load: int = 10_000
    newest: int = 50
    crowds: tuple[int, ...] = (1000, 100_000)
    per_conversation: int = 10
    listed: int = 20
    budget: float = 3.0
    peers_in: frozenset[str] | None = None

    @classmethod
    def of(cls, store: str, *, quick: bool) -> Self:
        """
        What is done on a store.

        A quick run takes about a minute, peers included: does everything still run, not how fast it
        is. Object storage answers in milliseconds where others take parts of one, so it does less.
        """
        plan = cls()
        if store == "objects":
            plan = replace(
                plan, appends=300, each=10, fill_sizes=(100, 1000, 10_000), block=5, crowds=(1000, 10_000)
            )
        if quick:
            plan = replace(
                plan,
                appends=plan.appends // 5,
                each=plan.each // 5,
                fill_sizes=(100, 1000),
                grown_turns=100,
                load=1000,
                crowds=(200, 500) if store == "objects" else (200, 2000),
                budget=0.5,
                peers_in=frozenset({"W1", "W2"}),
            )
        return plan

    def includes(self, kind: Kind, workload: str) -> bool:
        """Whether subjects of this kind are asked for a workload."""
        return kind != "peer" or self.peers_in is None or workload in self.peers_in

    def capped(self, kind: Kind, *, slow: bool) -> Self:
        """
        The part of the plan that a peer is asked to do.

        Their cost grows with the log, so a cap only ever flatters them.
        """
        plan = self
        if kind == "peer":
            plan = replace(
                plan,
                fill_sizes=tuple(size for size in self.fill_sizes if size <= 10_000),
                crowds=self.crowds[:1],
            )
        if slow:
            plan = replace(
                plan,
                appends=self.appends // 4,
                each=self.each // 10,
                block=self.block // 4,
                grown_turns=self.grown_turns // 4,
            )
        return plan
