"""The driver's errors in our words. They leave the package nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import asyncpg  # type: ignore[import-untyped]
from asyncpg import exceptions as pg

from holdfast.errors import NotAStore, StoreError, StoreFull, StoreUnavailable

ROLLED_BACK: tuple[type[Exception], ...] = (pg.DeadlockDetectedError, pg.SerializationError)
"""The server undid the statement for the sake of others: it can simply be tried again."""

DRIVERS: tuple[type[Exception], ...] = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What comes from the driver or the network."""

_GONE = (
    OSError,
    pg.PostgresConnectionError,
    pg.OperatorInterventionError,
    pg.TooManyConnectionsError,
    pg.LockNotAvailableError,
    pg.IdleInTransactionSessionTimeoutError,
    pg.ReadOnlySQLTransactionError,
    pg.InternalClientError,
)
_NO_ENTRY = (pg.InvalidAuthorizationSpecificationError, pg.InvalidCatalogNameError)


def translate(error: BaseException, url: str) -> StoreError:
    """What a driver's error means for the caller."""
    match error:
        case TimeoutError():
            return StoreUnavailable(
                f"{url} did not answer in time; it may have done the work all the same. Retry with the token"
            )
        case pg.DiskFullError():
            return StoreFull(
                f"{url}: no space is left; nothing of this commit was stored. Free some and retry"
            )
        case _ if isinstance(error, _NO_ENTRY):
            return StoreUnavailable(f"{url} does not let us in: {error}")
        case _ if isinstance(error, _GONE):
            return StoreUnavailable(f"{url} can't be reached: {error or type(error).__name__}")
        case pg.UndefinedTableError() | pg.InvalidSchemaNameError():
            return NotAStore(f"{url} has lost its tables: {error}. Run `holdfast migrate {url}`")
        case asyncpg.InterfaceError():
            return StoreUnavailable(f"{url} can't be used: {error}")
    return StoreError(f"{url} refused a statement: {error}")


@contextlib.contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise the driver's errors as ours."""
    try:
        yield
    except DRIVERS as exc:
        raise translate(exc, url) from exc
