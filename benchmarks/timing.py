"""Taking times."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

HEARTBEAT = 0.001


def median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1e3


def percentile_ms(seconds: Sequence[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3


async def timed(step: Awaitable[object]) -> float:
    """Seconds that one awaitable takes."""
    start = perf_counter()
    await step
    return perf_counter() - start


async def repeated(
    step: Callable[[int], Awaitable[object]], *, most: int, budget: float, least: int = 3
) -> list[float]:
    """Seconds of each repetition, until there are enough or the budget is spent."""
    times: list[float] = []
    while len(times) < most and (len(times) < least or sum(times) < budget):
        times.append(await timed(step(len(times))))
    return times


async def loop_lags(work: Awaitable[object]) -> list[float]:
    """How many seconds late a heartbeat of 1 ms comes while ``work`` runs."""
    lags: list[float] = []

    async def beat() -> None:
        while True:
            start = perf_counter()
            # Waking at fixed intervals is what is measured; there is no event to wait for.
            await asyncio.sleep(HEARTBEAT)
            lags.append(perf_counter() - start - HEARTBEAT)

    heart = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await work
    # A loop that never came back during the work has a beat outstanding: let it be counted.
    await asyncio.sleep(2 * HEARTBEAT)
    heart.cancel()
    return lags
