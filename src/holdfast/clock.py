"""Time as the stores see it: whole microseconds since 1970, in UTC."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]

SECOND = 1_000_000


def system_clock() -> int:
    """The host's wall clock in microseconds."""
    return time.time_ns() // 1_000


def microseconds(seconds: float) -> int:
    """A duration in seconds, as the whole microseconds that stores count in."""
    return round(seconds * SECOND)
