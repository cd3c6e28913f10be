"""Waiting for a server that comes back, or for something to be so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.errors import StoreUnavailable

T = TypeVar("T")


async def until(work: Callable[[], Awaitable[T]], *, seconds: float = 20) -> T:
    """Try again for as long as the server is away."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await work()
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.02)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(20):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)
