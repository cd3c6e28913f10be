"""Filled stores and what they weigh."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.bench import Fixture
from benchmarks.messages import json_bytes, make_messages
from benchmarks.plan import Plan
from benchmarks.subject import Subject

FILLED = "filled.json"
"""The file in a filled directory that tells what went in."""

_CROWD_SEEDS = 50


async def fill(subject: Subject[Any], fixture: Fixture, plan: Plan) -> None:
    """Fill an empty subject with a fixture, untimed, and leave a note of how many bytes of JSON it got."""
    await subject.open()
    if fixture.shape == "log":
        messages = make_messages(fixture.size)
        await subject.create("c0")
        await subject.fill("c0", subject.prepare(messages))
        weight = json_bytes(messages)
    else:
        pool = [make_messages(plan.per_conversation, seed=seed) for seed in range(_CROWD_SEEDS)]
        await subject.fill_crowd(
            [(f"c{n}", subject.prepare(pool[n % _CROWD_SEEDS])) for n in range(fixture.size)]
        )
        weights = [json_bytes(messages) for messages in pool]
        weight = sum(weights[n % _CROWD_SEEDS] for n in range(fixture.size))
    await subject.settle()
    await subject.close()
    (subject.directory / FILLED).write_text(json.dumps({"json_bytes": weight}))


def stored_bytes(directory: Path) -> int:
    """What a closed store weighs on disk, its write-ahead log folded in."""
    for path in directory.rglob("*.db"):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file() and path.name != FILLED)
