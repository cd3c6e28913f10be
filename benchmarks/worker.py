"""One measurement, or one fill, in this fresh process: ``python -m benchmarks.worker <job as JSON>``."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

from benchmarks.bench import Bench, Entry, Fixture, Samples
from benchmarks.disk import fill
from benchmarks.plan import Plan
from benchmarks.subjects import entry_named, make_subject
from benchmarks.workloads import workload_named


@dataclass(frozen=True)
class Job:
    """
    What a worker is asked to do.

    It runs ``workload`` in the empty ``directory``, or it fills the ``fixtures`` (shape and size)
    if there are any. Filled stores are below ``filled``. Samples are written to ``answer``.
    """

    store: str
    subject: str
    quick: bool
    directory: str
    filled: str
    answer: str
    asked_at: float
    workload: str
    fixtures: tuple[tuple[Literal["log", "crowd"], int], ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


async def fill_all(job: Job, entry: Entry, plan: Plan) -> None:
    """Fill each of the job's fixtures, in a directory of its own."""
    for shape, size in job.fixtures:
        fixture = Fixture(shape, size)
        directory = Path(job.filled) / fixture.name
        directory.mkdir(parents=True)
        await fill(make_subject(entry, directory), fixture, plan)


async def measure(job: Job, entry: Entry, plan: Plan) -> Samples:
    """Run the job's workload once."""
    workload = workload_named(job.workload)
    directory = Path(job.directory)
    fixtures = {fixture.name: Path(job.filled) / fixture.name for fixture in workload.fixtures(plan)}
    if workload.writes:
        for name, source in fixtures.items():
            fixtures[name] = shutil.copytree(source, directory / name)
    # What copying left in the page cache would be written during somebody's first commits.
    os.sync()
    bench = Bench(entry, plan, directory, fixtures, lambda path: make_subject(entry, path), job.asked_at)
    return await workload.run(bench)


def main() -> None:
    job = Job.from_json(sys.argv[1])
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    entry = entry_named(job.store, job.subject)
    plan = Plan.of(job.store, quick=job.quick).capped(entry.kind, slow=entry.slow)
    samples: Samples = {}
    if job.fixtures:
        asyncio.run(fill_all(job, entry, plan))
    else:
        samples = asyncio.run(measure(job, entry, plan))
    Path(job.answer).write_text(json.dumps(samples))


if __name__ == "__main__":
    main()
