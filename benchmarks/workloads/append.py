"""W1 and W2: storing one message at a time, alone and with 64 at once."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from benchmarks.bench import Bench, Measure, Samples, Workload
from benchmarks.messages import make_messages
from benchmarks.plan import Plan
from benchmarks.subject import Subject
from benchmarks.timing import loop_lags, percentile_ms, timed

_WARM = 20
_TIMED, _WARMED, _WATCHED = "c0", "c1", "c2"


async def _alone(bench: Bench) -> Samples:
    count = bench.plan.appends
    watched_count = count // 2
    subject = bench.make(bench.directory)
    await subject.open()
    messages = subject.prepare(make_messages(count + watched_count + _WARM))
    for conversation in (_TIMED, _WARMED, _WATCHED):
        await subject.create(conversation)
    for message in messages[count + watched_count :]:
        await subject.append(_WARMED, message)
    await subject.settle()

    start = perf_counter()
    times = [await timed(subject.append(_TIMED, message)) for message in messages[:count]]
    await subject.settle()
    elapsed = perf_counter() - start

    async def watched() -> None:
        for message in messages[count : count + watched_count]:
            await subject.append(_WATCHED, message)
        await subject.settle()

    lags = await loop_lags(watched())
    stored = len(await subject.load(_TIMED))
    await subject.close()
    if stored != count:
        raise RuntimeError(f"{bench.entry.name} stored {stored} of {count} messages")
    return {
        "rate": count / elapsed,
        "p50": percentile_ms(times, 0.5),
        "p99": percentile_ms(times, 0.99),
        "lag_p99": percentile_ms(lags, 0.99),
        "lag_max": percentile_ms(lags, 1.0),
    }


async def _at_once(bench: Bench) -> Samples:
    plan = bench.plan
    subject = bench.make(bench.directory)
    await subject.open()
    writers = [f"c{n}" for n in range(plan.writers)]
    messages = {
        writer: subject.prepare(make_messages(1 + 2 * plan.each, seed=n)) for n, writer in enumerate(writers)
    }
    for writer in writers:
        await subject.create(writer)
        await subject.append(writer, messages[writer].pop())
    await subject.brace(plan.writers)
    await subject.settle()

    times: list[float] = []
    failures: list[Exception] = []
    start = perf_counter()
    await asyncio.gather(
        *(_write(subject, writer, messages[writer][: plan.each], times, failures) for writer in writers)
    )
    await subject.settle()
    elapsed = perf_counter() - start

    async def watched() -> None:
        await asyncio.gather(
            *(_write(subject, writer, messages[writer][plan.each :], [], []) for writer in writers)
        )
        await subject.settle()

    lags = await loop_lags(watched())
    await subject.close()
    if not times:
        raise failures[0]
    return {
        "rate": len(times) / elapsed,
        "p50": percentile_ms(times, 0.5),
        "p99": percentile_ms(times, 0.99),
        "lag_p99": percentile_ms(lags, 0.99),
        "lag_max": percentile_ms(lags, 1.0),
        "failed": float(len(failures)),
    }


async def _write(
    subject: Subject[Any],
    conversation: str,
    messages: list[Any],
    times: list[float],
    failures: list[Exception],
) -> None:
    for message in messages:
        try:
            times.append(await timed(subject.append(conversation, message)))
        except Exception as exc:
            # Some peers answer "database is locked" when many write at once. What fails is
            # counted and shown, not retried: their applications see the same error.
            failures.append(exc)


def _measures(plan: Plan) -> tuple[Measure, ...]:
    return (
        Measure("rate", "appends", "1/s", "more"),
        Measure("p50", "an append, p50", "ms", "less"),
        Measure("p99", "an append, p99", "ms", "less"),
        Measure("lag_p99", "event loop late, p99", "ms", "less"),
        Measure("lag_max", "event loop late, max", "ms", "less"),
    )


ALONE = Workload("W1", "one conversation, one append at a time", _alone, _measures, writes=True)
AT_ONCE = Workload(
    "W2",
    "64 conversations, 64 appends at once",
    _at_once,
    lambda plan: (*_measures(plan), Measure("failed", "appends that failed", "", "less")),
    writes=True,
)
