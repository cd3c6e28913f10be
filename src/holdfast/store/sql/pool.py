"""A few connections, shared by many tasks."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from holdfast.errors import StoreUnavailable

IDLE_SECONDS = 30.0


class _Idle(msgspec.Struct):
    connection: Any
    since: float


class Connections(ABC):
    """
    Lends connections of a driver.

    A connection on which something went wrong is closed, not repaired. One that was idle for long
    is asked whether it still lives: proxies and firewalls drop idle ones without a word.
    """

    def __init__(self, shown: str, timeout: float, size: int) -> None:
        self._shown = shown
        self._timeout = timeout
        self._size = size
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Idle] = []

    @abstractmethod
    async def _connect(self) -> Any:
        """A new connection. Raises ``StoreUnavailable``."""

    @abstractmethod
    def _is_closed(self, connection: Any) -> bool:
        """Whether this side knows that it can't be used any more."""

    @abstractmethod
    async def _lives(self, connection: Any) -> bool:
        """Ask the server; a connection that does not answer is closed."""

    @abstractmethod
    async def _end(self, connection: Any) -> None:
        """Say goodbye, as far as the server listens."""

    async def close(self) -> None:
        """Close the connections; nobody may use one any more."""
        while self._idle:
            await self._end(self._idle.pop().connection)

    async def _acquire(self) -> Any:
        if self._slots.locked():
            await self._wait_for_slot()
        else:
            await self._slots.acquire()
        try:
            while self._idle:
                idle = self._idle.pop()
                if self._is_closed(idle.connection):
                    continue
                if time.monotonic() - idle.since < IDLE_SECONDS or await self._lives(idle.connection):
                    return idle.connection
            return await self._connect()
        except BaseException:
            self._slots.release()
            raise

    async def _wait_for_slot(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"{self._shown}: all {self._size} connections were in use for {self._timeout:g} "
                f"seconds; allow more with ?pool={2 * self._size}, or find out who keeps them"
            ) from None

    def _release(self, connection: Any) -> None:
        if not self._is_closed(connection):
            self._idle.append(_Idle(connection, time.monotonic()))
        self._slots.release()
