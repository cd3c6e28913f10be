"""Where the numbers come from."""

from __future__ import annotations

import os
import platform
import statistics
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

_SYNCS = 200


def machine_facts() -> dict[str, str | int]:
    """What to know of this machine before comparing its numbers with another's."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def sync_ms(directory: Path) -> float:
    """Median milliseconds to make 4 KB durable, again and again in place as a write-ahead log does."""
    times: list[float] = []
    path = directory / "sync.bin"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(file, bytes(4096), 0)
        os.fsync(file)
        for _ in range(_SYNCS):
            start = perf_counter()
            os.pwrite(file, os.urandom(4096), 0)
            os.fdatasync(file)
            times.append(perf_counter() - start)
    finally:
        os.close(file)
        path.unlink()
    return statistics.median(times) * 1e3
