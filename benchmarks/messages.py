"""Seeded messages in the shape that agents write: a user, an assistant with two tool calls, two results."""

from __future__ import annotations

import json
import random
from itertools import accumulate, cycle, islice
from typing import Any

Message = dict[str, Any]

TURN = 4
"""Messages of one turn."""

_COMMON = (
    "the agent customer order refund status shipped please check database query result error retry invoice "
    "total amount city weather flight booking hotel café naïve summary because however index latency token "
    "budget planner step tool call returned value list next previous 日本 ✓ confirm"
)
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu"
_VOCABULARY = 4000
_POOL = 4000


def _vocabulary() -> tuple[list[str], list[float]]:
    """Words and their cumulative weights: a few are everywhere, most are rare, as in real text."""
    rng = random.Random(0)
    rare = {"".join(rng.choices(_SYLLABLES.split(), k=rng.randint(2, 4))) for _ in range(_VOCABULARY)}
    words = [*_COMMON.split(), *sorted(rare)]
    return words, list(accumulate(1 / (rank + 1) for rank in range(len(words))))


_WORDS, _WEIGHTS = _vocabulary()


def _text(rng: random.Random, size: int) -> str:
    words = rng.choices(_WORDS, cum_weights=_WEIGHTS, k=size // 5)
    return " ".join(words)[:size]


def _turn(rng: random.Random) -> list[Message]:
    call_ids = [f"call_{rng.getrandbits(64):016x}" for _ in range(2)]
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {
                "name": "lookup_order",
                "arguments": json.dumps({"order_id": rng.randrange(10**9), "q": _text(rng, 40)}),
            },
        }
        for call_id in call_ids
    ]
    results = [
        {
            "role": "tool",
            "tool_call_id": call_id,
            "name": "lookup_order",
            "content": _text(rng, 4000 if rng.random() < 0.1 else rng.randint(150, 550)),
        }
        for call_id in call_ids
    ]
    return [
        {"role": "user", "content": _text(rng, rng.randint(80, 350))},
        {"role": "assistant", "content": _text(rng, rng.randint(80, 400)), "tool_calls": calls},
        *results,
    ]


def make_turns(count: int, *, seed: int = 1) -> list[list[Message]]:
    """That many turns, always the same for a seed."""
    rng = random.Random(seed)
    return [_turn(rng) for _ in range(count)]


def make_messages(count: int, *, seed: int = 1) -> list[Message]:
    """
    That many messages, always the same for a seed.

    They repeat after 4,000, so that filling a store measures the store and not this generator.
    """
    distinct = min(count, _POOL)
    pool = [message for turn in make_turns(-(-distinct // TURN), seed=seed) for message in turn]
    return list(islice(cycle(pool[:distinct]), count))


def json_bytes(messages: list[Message]) -> int:
    """What the messages weigh as compact UTF-8 JSON."""
    return sum(len(json.dumps(m, ensure_ascii=False, separators=(",", ":")).encode()) for m in messages)
