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
ROUNDS = 5


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


def best(work: Callable[[], object]) -> float:
    """The shortest of a few runs, in seconds."""
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def main() -> int:
    """Print the table; 1 if a view misses the target."""
    log = a_log(EVENTS)
    base = best(lambda: [decode(event.type, event.data) for event in log])
    print(f"{'':12}{'ms':>8}{'ratio':>8}   ({EVENTS:,} events)")
    print(f"{'decode':12}{base * 1e3:8.1f}{1:8.2f}")
    missed = False
    for view in (transcript, rows, state, usage):
        took = best(lambda view=view: view(log))  # type: ignore[misc]
        missed |= took > TARGET * base
        print(
            f"{view.__name__:12}{took * 1e3:8.1f}{took / base:8.2f}{'   over' if took > TARGET * base else ''}"
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
