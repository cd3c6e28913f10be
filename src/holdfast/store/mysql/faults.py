"""The driver's errors in our words. They leave the package nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from asyncmy.errors import MySQLError

from holdfast.errors import NotAStore, StoreError, StoreFull, StoreUnavailable

DRIVERS: tuple[type[Exception], ...] = (OSError, MySQLError)
"""What comes from the driver or the network."""

ROLLED_BACK = frozenset((1213, 1020))
"""The server undid the whole transaction for the sake of others: it can simply be tried again."""

DUPLICATE = 1062
DONE_BEFORE = frozenset((1050, 1060, 1061, 1091))
"""A table, column or index is already made, or dropped."""

_NO_ENTRY = frozenset((1044, 1045, 1049, 1130, 1227, 1251, 1698, 2054, 2059, 4151))
_FULL = frozenset((1021, 1114, 3675))
_LOST_TABLES = frozenset((1146, 1932))
_TOO_SLOW = frozenset((1205, 1969, 3024))
_GONE = frozenset(
    (1040, 1053, 1077, 1152, 1156, *range(1158, 1162), 1180, 1184, 1203, 1226, 1290, 1317, 1792, 1836, 1927)
) | {2003, 2006, 2013, 2014, 3169, 4031}


def code_of(error: BaseException | None) -> int:
    """The number of a driver's error, or of the one that ours was made from; 0 if it has none."""
    if isinstance(error, StoreError):
        error = error.__cause__
    first = error.args[0] if isinstance(error, MySQLError) and error.args else 0
    return first if isinstance(first, int) else 0


def refused(error: BaseException) -> bool:
    """Whether the server said no, so that the connection is still good."""
    code = code_of(error)
    return isinstance(error, MySQLError) and code != 0 and code not in _GONE


def translate(error: BaseException, url: str) -> StoreError:
    """What a driver's error means for the caller."""
    code = code_of(error)
    says = error.args[1] if isinstance(error, MySQLError) and len(error.args) > 1 else error
    if isinstance(error, TimeoutError):
        return StoreUnavailable(
            f"{url} did not answer in time; it may have done the work all the same. Retry with the token"
        )
    if code in _TOO_SLOW:
        return StoreUnavailable(f"{url} gave up waiting for others: {says}. Nothing was changed; try again")
    if code in _NO_ENTRY:
        return StoreUnavailable(f"{url} does not let us in: {says}")
    if code in _FULL:
        return StoreFull(f"{url}: no space is left; nothing of this commit was stored. Free some and retry")
    if code in _LOST_TABLES:
        return NotAStore(f"{url} has lost its tables: {says}. Run `holdfast migrate {url}`")
    if not refused(error):
        return StoreUnavailable(f"{url} can't be reached: {says or type(error).__name__}")
    return StoreError(f"{url} refused a statement: {says}")


@contextlib.contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise the driver's errors as ours."""
    try:
        yield
    except DRIVERS as exc:
        raise translate(exc, url) from exc
