"""W4 and W5: reading a long conversation, and going on with it in a new process."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, Fixture, Measure, Samples, Workload
from benchmarks.plan import Plan
from benchmarks.timing import median_ms, repeated, timed


async def _load(bench: Bench) -> Samples:
    plan = bench.plan
    subject = bench.make(bench.fixtures[_log(plan)[0].name])
    await subject.open()
    found = len(await subject.load("c0")), len(await subject.newest("c0", plan.newest))
    if found != (plan.load, plan.newest):
        raise RuntimeError(f"{bench.entry.name} loaded {found} messages, not {(plan.load, plan.newest)}")
    everything = await repeated(lambda _: subject.load("c0"), most=9, budget=plan.budget)
    newest = await repeated(lambda _: subject.newest("c0", plan.newest), most=101, budget=plan.budget / 3)
    await subject.close()
    return {"all": median_ms(everything), "newest": median_ms(newest)}


async def _cold(bench: Bench) -> Samples:
    plan = bench.plan
    subject = bench.make(bench.fixtures[_log(plan)[0].name])
    opened = await timed(subject.open())
    resumed = await timed(subject.resume("c0", plan.newest))
    ready_at = time.time()
    await subject.close()
    return {"resume": (opened + resumed) * 1e3, "process": (ready_at - bench.asked_at) * 1e3}


def _log(plan: Plan) -> tuple[Fixture, ...]:
    return (Fixture("log", plan.load),)


LOAD = Workload(
    "W4",
    "load a long conversation",
    _load,
    lambda plan: (
        Measure("all", f"all of {plan.load:,} events", "ms", "less"),
        Measure("newest", f"the newest {plan.newest}", "ms", "less"),
    ),
    fixtures=_log,
)
COLD = Workload(
    "W5",
    "go on in a new process",
    _cold,
    lambda plan: (
        Measure("resume", f"open, load what is needed ({plan.load:,} events)", "ms", "less"),
        Measure("process", "the same from the start of the process", "ms", "less"),
    ),
    fixtures=_log,
)
