"""Connections: how they are made, shared, checked and given up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec

from holdfast.errors import HoldfastError
from holdfast.store.postgres.faults import DRIVERS, ROLLED_BACK, translate, translated
from holdfast.store.sql.database import Row
from holdfast.store.sql.pool import Connections
from holdfast.store.sql.statements import Statement

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


class Pool(Connections):
    """A few connections for many tasks."""

    def __init__(self, access: Access, size: int) -> None:
        super().__init__(access.shown, access.timeout, size)
        self._access = access

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

    async def _connect(self) -> Any:
        return await self._access.connect()

    def _is_closed(self, connection: Any) -> bool:
        closed: bool = connection.is_closed()
        return closed

    async def _end(self, connection: Any) -> None:
        try:
            await connection.close(timeout=self._access.timeout)
        except Exception:
            connection.terminate()

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
