"""What the tests of the Redis store share: servers with settings of their own, and a look behind the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import redis
from tests.servers.process import Server
from tests.servers.valkey import Valkey

from holdfast.errors import StoreUnavailable

T = TypeVar("T")


class Tuned(Valkey):
    """A server with more settings than the others: ``Tuned("--maxmemory", "20mb", durable=True)``."""

    def __init__(self, *settings: str, durable: bool = False) -> None:
        super().__init__(durable=durable)
        self._settings = settings

    def start(self) -> Tuned:
        super().start()
        return self

    def _command(self) -> list[str]:
        return [*super()._command(), *self._settings]

    def files(self) -> bytes:
        """Every byte that the server keeps on its disk."""
        kept = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.suffix != ".log")
        return b"".join(path.read_bytes() for path in kept)


def raw(server: Server) -> redis.Redis:
    """A client of the driver, to look behind the store."""
    return redis.Redis(port=server.port)


def say(client: redis.Redis, *command: object) -> Any:
    """Send any command, and give its answer."""
    return client.execute_command(*command)  # type: ignore[no-untyped-call]


def behind(url: str) -> redis.Redis:
    """A client of the driver for a store's server."""
    return redis.Redis.from_url(url.partition("?")[0])


def keys(client: redis.Redis, prefix: str) -> list[bytes]:
    """The keys of a store."""
    found: Any = client.keys(f"{{{prefix}:*")
    return sorted(found)


async def until(work: Callable[[], Awaitable[T]], *, seconds: float = 30) -> T:
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
    """Wait for something that is bound to come."""
    async with asyncio.timeout(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)
