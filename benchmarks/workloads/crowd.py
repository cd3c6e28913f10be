"""W6: finding a conversation among many."""

from __future__ import annotations

from benchmarks.bench import Bench, Fixture, Measure, Samples, Workload
from benchmarks.subject import OWNERS
from benchmarks.timing import median_ms, timed

_SAMPLES = 60
_STRIDE = 7919
"""A prime, so that the conversations loaded lie all over the file."""


async def _find(bench: Bench) -> Samples:
    plan = bench.plan
    subjects = {size: bench.make(bench.fixtures[Fixture("crowd", size).name]) for size in plan.crowds}
    lists: dict[int, list[float]] = {size: [] for size in plan.crowds}
    loads: dict[int, list[float]] = {size: [] for size in plan.crowds}
    can_list = True
    for subject in subjects.values():
        await subject.open()
        listed = await subject.list_newest("owner-7", plan.listed)
        can_list = listed is not None
        if listed is not None and len(listed) != plan.listed:
            raise RuntimeError(f"{bench.entry.name} listed {len(listed)} conversations, not {plan.listed}")

    for n in range(_SAMPLES):
        for size, subject in subjects.items():
            if sum(lists[size]) + sum(loads[size]) > plan.budget:
                continue
            if can_list:
                lists[size].append(await timed(subject.list_newest(f"owner-{n % OWNERS}", plan.listed)))
            loads[size].append(await timed(subject.load(f"c{n * _STRIDE % size}")))

    for subject in subjects.values():
        await subject.close()
    samples = {f"load_{size}": median_ms(times) for size, times in loads.items()}
    return samples | {f"list_{size}": median_ms(times) for size, times in lists.items() if times}


FIND = Workload(
    "W6",
    "one conversation among many",
    _find,
    lambda plan: tuple(
        Measure(f"{step}_{size}", f"{label} among {size:,}", "ms", "less")
        for step, label in (("list", f"list the newest {plan.listed} of an owner"), ("load", "load one"))
        for size in plan.crowds
    ),
    fixtures=lambda plan: tuple(Fixture("crowd", size) for size in plan.crowds),
)
