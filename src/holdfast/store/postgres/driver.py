"""Connections: how they are made, shared, checked and given up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.store.postgres.faults import DRIVERS, ROLLED_BACK, translate, translated
from holdfast.store.sql.database import Row
from holdfast.store.sql.statements import Statement

IDLE_SECONDS = 30.0
CANCEL_SECONDS = 2.0
RETRIES = 5


class Access(msgspec.Struct, frozen=True):
    """
    How to reach the server.

    ``pooled`` says that a proxy may give each transaction another connection: then nothing is kept
    on one, neither prepared statements nor settings.
    """

    dsn: str
    shown: str
    timeout: float
    pooled: bool = False

    async def connect(self, *, patient: bool = False) -> Any:
        """
        A new connection; a ``patient`` one is for work that may take longer than the timeout.

        Raises:
            StoreUnavailable: There is no server, or it does not let us in.
        """
        connecting = asyncio.create_task(self._connect(patient))
        _connecting.add(connecting)
        connecting.add_done_callback(_connecting.discard)
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # Given up in the making, a connection of this driver would stay half open.
            connecting.add_done_callback(_abandon)
            raise

    async def _connect(self, patient: bool) -> Any:
        settings = {"application_name": "holdfast"}
        if not self.pooled:
            # Plans are kept on the connection and outlive the first rows of a table, when it would
            # still be right to read all of them.
            settings |= {
                "jit": "off",
                "enable_seqscan": "off",
                "default_transaction_isolation": "read committed",
            }
            if not patient:
                limit = str(round(self.timeout * 900))
                settings |= {"statement_timeout": limit, "idle_in_transaction_session_timeout": limit}
        with translated(self.shown):
            return await asyncpg.connect(
                self.dsn,
                timeout=self.timeout,
                command_timeout=None if patient else self.timeout,
                statement_cache_size=0 if self.pooled else 256,
                max_cached_statement_lifetime=0,
                max_cacheable_statement_size=0,
                server_settings=settings,
            )


_connecting: set[asyncio.Task[Any]] = set()


def _abandon(connecting: asyncio.Task[Any]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().terminate()


class _Idle(msgspec.Struct):
    connection: Any
    since: float


class Pool:
    """
    A few connections for many tasks.

    A connection on which something went wrong is closed, not repaired. One that was idle for long
    is asked whether it still lives: proxies and firewalls drop idle ones without a word.
    """

    def __init__(self, access: Access, size: int) -> None:
        self._access = access
        self._size = size
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Idle] = []

    async def fetch(self, statement: Statement, **values: Any) -> list[Row]:
        """Run a statement as a transaction of its own."""
        arguments = statement.arguments(values)
        left = RETRIES
        while True:
            connection = await self._acquire()
            try:
                rows: list[Row] = await connection.fetch(statement.sql, *arguments)
                return rows
            except BaseException as exc:
                await _give_up(connection, exc)
                left -= 1
                if left and isinstance(exc, ROLLED_BACK):
                    continue
                if isinstance(exc, DRIVERS):
                    raise translate(exc, self._access.shown) from exc
                raise
            finally:
                self._release(connection)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[_Transaction]:
        """A transaction over several statements, undone if the block raises."""
        connection = await self._acquire()
        try:
            with translated(self._access.shown):
                async with connection.transaction(isolation="read_committed"):
                    yield _Transaction(connection, self._access.shown)
        except BaseException as exc:
            await _give_up(connection, exc.__cause__ or exc)
            raise
        finally:
            self._release(connection)

    async def close(self) -> None:
        """Close the connections; nobody may use one any more."""
        while self._idle:
            connection = self._idle.pop().connection
            try:
                await connection.close(timeout=self._access.timeout)
            except Exception:
                connection.terminate()

    async def _acquire(self) -> Any:
        if self._slots.locked():
            await self._wait_for_slot()
        else:
            await self._slots.acquire()
        try:
            while self._idle:
                idle = self._idle.pop()
                if idle.connection.is_closed():
                    continue
                if time.monotonic() - idle.since < IDLE_SECONDS or await self._lives(idle.connection):
                    return idle.connection
            return await self._access.connect()
        except BaseException:
            self._slots.release()
            raise

    async def _wait_for_slot(self) -> None:
        try:
            async with asyncio.timeout(self._access.timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"{self._access.shown}: all {self._size} connections were in use for {self._access.timeout:g} "
                f"seconds; allow more with ?pool={2 * self._size}, or find out who keeps them"
            ) from None

    def _release(self, connection: Any) -> None:
        if not connection.is_closed():
            self._idle.append(_Idle(connection, time.monotonic()))
        self._slots.release()

    async def _lives(self, connection: Any) -> bool:
        try:
            await connection.execute("SELECT 1", timeout=min(self._access.timeout, 2.0))
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection.terminate()
            return False
        return True


class _Transaction:
    """One open transaction as a database."""

    def __init__(self, connection: Any, shown: str) -> None:
        self._connection, self._shown = connection, shown

    async def fetch(self, statement: Statement, **values: Any) -> list[Row]:
        with translated(self._shown):
            rows: list[Row] = await self._connection.fetch(statement.sql, *statement.arguments(values))
            return rows


async def _give_up(connection: Any, error: BaseException) -> None:
    """Close a connection on which something went wrong, unless the server merely said no."""
    ended = isinstance(error, asyncpg.OperatorInterventionError)
    refused = isinstance(error, (asyncpg.PostgresError, HoldfastError)) and not ended
    if refused:
        return
    try:
        if isinstance(error, asyncio.CancelledError):
            # The driver has asked the server to stop. Until it has, a commit that was given up could
            # still be applied, after what its caller does next.
            await connection.execute("SELECT 1", timeout=CANCEL_SECONDS)
    except DRIVERS:
        pass
    finally:
        connection.terminate()
