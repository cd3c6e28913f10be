"""
Connections: how they are made, shared, checked and given up.

Statements go to the server several at a time, as one message: a transaction that needs no decision in
between is one round trip.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import asyncmy
import msgspec
from asyncmy.constants import FIELD_TYPE
from asyncmy.constants.CLIENT import FOUND_ROWS

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.store.mysql.faults import DRIVERS, ROLLED_BACK, code_of, refused, translate, translated
from holdfast.store.mysql.literals import written
from holdfast.store.mysql.options import Options
from holdfast.store.sql.database import Row
from holdfast.store.sql.pool import Connections
from holdfast.store.sql.statements import Statement

CANCEL_SECONDS = 2.0
RETRIES = 8
PATIENT_SECONDS = 3600

T = TypeVar("T")

_NUMBERS = ("TINY", "SHORT", "LONG", "LONGLONG", "INT24", "NEWDECIMAL")
_DECODERS = {getattr(FIELD_TYPE, name): int for name in _NUMBERS} | {FIELD_TYPE.VAR_STRING: bytes.decode}
"""Names are VARBINARY and become strings; payloads are TEXT or BLOB and stay bytes."""

BEGIN, COMMIT = b"START TRANSACTION", b"COMMIT"


class Result(Protocol):
    """What a statement did."""

    rows: tuple[Row, ...]
    affected_rows: int
    insert_id: int


class Again(Exception):
    """Somebody was quicker; the transaction has to start anew."""


class Access(msgspec.Struct, frozen=True):
    """How to reach the server."""

    options: Options

    async def connect(self, *, patient: bool = False) -> Any:
        """
        A new connection; a ``patient`` one is for work that may take longer than the timeout.

        Raises:
            StoreUnavailable: There is no server, or it does not let us in.
        """
        options = self.options
        limit = PATIENT_SECONDS if patient else max(1, int(options.timeout * 0.9))
        with translated(options.shown):
            try:
                async with asyncio.timeout(options.timeout):
                    connection = await asyncmy.connect(
                        host=options.host,
                        port=options.port,
                        unix_socket=options.unix_socket,
                        user=options.user,
                        password=options.password.encode(),
                        database=options.database,
                        ssl=options.encryption(),
                        connect_timeout=options.timeout,
                        autocommit=None,
                        use_unicode=False,
                        conv=_DECODERS,
                        client_flag=FOUND_ROWS,
                        program_name="holdfast",
                    )
                    await send(
                        connection,
                        b"SET NAMES binary",
                        b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                        b"SET autocommit = 1, time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'",
                        # By default the last of 1024 bytes do not count in an order.
                        b"SET max_sort_length = 4096",
                        # A process that stalls inside a transaction holds locks for no longer than this.
                        b"SET innodb_lock_wait_timeout = %d, wait_timeout = %d" % (limit, max(60, 2 * limit)),
                    )
            except RuntimeError as exc:
                # The driver lacks a package that this way to log in needs.
                raise StoreUnavailable(f"{options.shown} can't be reached: {exc}") from exc
        return connection


async def send(connection: Any, *statements: bytes) -> list[Result]:
    """Run statements in one round trip; nothing after one that fails is run."""
    await connection.query(b";\n".join(statements))
    results: list[Result] = [connection._result]
    while connection._result.has_next:
        await connection.next_result()
        results.append(connection._result)
    return results


class Session:
    """One transaction. It begins with its first statement, and ends with ``finish`` or when the work is done."""

    def __init__(self, connection: Any, shown: str) -> None:
        self._connection = connection
        self._shown = shown
        self._begun = False
        self.finished = False

    async def run(self, *statements: bytes) -> list[Result]:
        """
        Run statements in one round trip.

        Raises:
            StoreUnavailable: The server can't be reached, or nobody knows whether it did it.
            StoreError: The server refused one of them.
        """
        if not statements:
            return []
        first, self._begun = not self._begun, True
        with translated(self._shown):
            results = await send(self._connection, *((BEGIN, *statements) if first else statements))
        return results[1:] if first else results

    async def finish(self, *statements: bytes) -> list[Result]:
        """Run the last statements and commit, in one round trip."""
        results = await self.run(*statements, COMMIT)
        self.finished = True
        return results


class Pool(Connections):
    """A few connections for many tasks."""

    def __init__(self, access: Access, size: int) -> None:
        super().__init__(access.options.shown, access.options.timeout, size)
        self._access = access
        self._tasks: set[asyncio.Task[Any]] = set()

    async def fetch(self, statement: Statement, **values: Any) -> list[Row]:
        """Read with one statement."""
        [result] = await self.read(written(statement, **values))
        return list(result.rows)

    async def read(self, *statements: bytes) -> list[Result]:
        """Read with several statements, in one round trip."""
        return await self._retried(lambda connection: send(connection, *statements))

    async def write(self, *statements: bytes) -> list[Result]:
        """Change something in one round trip, to its end even if the caller is cancelled."""
        return await self._to_its_end(self._retried(lambda connection: send(connection, *statements)))

    async def transaction(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """
        Do work in a transaction, to its end even if the caller is cancelled; undone if it raises.

        It is done again if the server undid all of it for the sake of others.
        """

        async def whole(connection: Any) -> T:
            session = Session(connection, self._shown)
            done = await work(session)
            if not session.finished:
                await session.finish()
            return done

        return await self._to_its_end(self._retried(whole))

    async def close(self) -> None:
        """Close the connections; nobody may use one any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await super().close()

    async def _retried(self, work: Callable[[Any], Awaitable[T]]) -> T:
        left = RETRIES
        while True:
            connection = await self._acquire()
            try:
                async with asyncio.timeout(self._timeout):
                    return await work(connection)
            except BaseException as exc:
                await self._clear_up(connection, exc)
                left -= 1
                if left and (isinstance(exc, Again) or code_of(exc) in ROLLED_BACK):
                    continue
                if isinstance(exc, Again):
                    raise StoreUnavailable(
                        f"{self._shown}: others were quicker all the time; try again"
                    ) from exc
                if isinstance(exc, DRIVERS):
                    raise translate(exc, self._shown) from exc
                raise
            finally:
                self._release(connection)

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Let work finish although its caller is cancelled.

        Given up in the middle, a commit could still be applied after what its caller does next.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            done, _ = await asyncio.wait((task,), timeout=CANCEL_SECONDS)
            if not done:
                task.cancel()
            raise

    async def _clear_up(self, connection: Any, error: BaseException) -> None:
        """Undo what is left of a transaction; a connection that may be broken is closed, which does so too."""
        cause = error.__cause__ if isinstance(error, StoreError) and error.__cause__ is not None else error
        if isinstance(cause, (*DRIVERS, asyncio.CancelledError)) and not refused(cause):
            connection.close()
            return
        try:
            async with asyncio.timeout(self._timeout):
                await send(connection, b"ROLLBACK")
        except DRIVERS:
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise

    async def _connect(self) -> Any:
        return await self._access.connect()

    def _is_closed(self, connection: Any) -> bool:
        return (
            connection._transport is None or connection._transport.is_closing() or connection._stream_broken
        )

    async def _lives(self, connection: Any) -> bool:
        try:
            async with asyncio.timeout(min(self._timeout, 2.0)):
                await send(connection, b"SELECT 1")
        except DRIVERS:
            connection.close()
            return False
        return True

    async def _end(self, connection: Any) -> None:
        with contextlib.suppress(*DRIVERS):
            async with asyncio.timeout(min(self._timeout, 2.0)):
                await connection.ensure_closed()
        connection.close()
