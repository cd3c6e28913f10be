"""
How long the views take beside decoding the log: ``python -m benchmarks.views``.

A fold reads bytes, so its time includes decoding. The target is 3 times the time to decode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

from holdfast.model import Event, Message, Text, ToolCall, ToolResult, Usage, decode, encode, type_of
from holdfast.views import rows, state, transcript, usage

EVENTS = 10_000
TARGET = 3.0
ROUNDS = 9


def a_log(count: int) -> list[Event]:
    """Turns of a user, an assistant with two calls, two results and an answer."""
    payloads: list[Message | ToolResult] = []
    while len(payloads) < count:
        turn = f"m{len(payloads)}"
        calls = tuple(
            ToolCall(f"{turn}/{n}", "search", {"query": "flights to Lisbon", "page": n}) for n in (1, 2)
        )
        payloads += (
            Message(f"{turn}u", "user", (Text("Find me a flight to Lisbon, please. " * 4),)),
            Message(turn, "assistant", (Text("I look it up."), *calls), model="big", usage=Usage(900, 60)),
            ToolResult(f"{turn}/2", "ok", (Text("HF205 to Lisbon at 17:45, 129.50 euros. " * 12),)),
            ToolResult(f"{turn}/1", "ok", (Text("HF101 to Lisbon at 09:10, 119.00 euros. " * 12),)),
            Message(
                f"{turn}a",
                "assistant",
                (Text("There are two flights. " * 12),),
                model="big",
                usage=Usage(999, 80),
            ),
        )
    return [
        Event(seq, type_of(payload), encode(payload), seq) for seq, payload in enumerate(payloads[:count], 1)
    ]


def decoded(log: list[Event]) -> object:
    return [decode(event.type, event.data) for event in log]


def timed(work: Callable[[list[Event]], object], log: list[Event]) -> float:
    start = perf_counter()
    work(log)
    return perf_counter() - start


def main() -> int:
    """Print the table; 1 if a view misses the target."""
    log = a_log(EVENTS)
    works: dict[str, Callable[[list[Event]], object]] = {
        "decode": decoded,
        "transcript": transcript,
        "rows": rows,
        "state": state,
        "usage": usage,
    }
    # The best of each, taken in turns: on a busy machine all of them have the same luck.
    rounds = [{name: timed(work, log) for name, work in works.items()} for _ in range(ROUNDS)]
    best = {name: min(times[name] for times in rounds) for name in works}
    print(f"{'':12}{'ms':>8}{'ratio':>8}   ({EVENTS:,} events)")
    for name, took in best.items():
        ratio = took / best["decode"]
        print(f"{name:12}{took * 1e3:8.1f}{ratio:8.2f}{'   over' if ratio > TARGET else ''}")
    return int(any(took > TARGET * best["decode"] for took in best.values()))


if __name__ == "__main__":
    sys.exit(main())
