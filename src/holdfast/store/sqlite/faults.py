"""The driver's errors in our words. They leave the package nowhere else."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from holdfast.errors import NotAStore, StoreError, StoreFull, StoreUnavailable


def translate(error: sqlite3.Error, url: str) -> StoreError:
    """What a driver's error means for the caller."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"{url}: no space is left; nothing of this commit was stored. Free some and retry")
    if code == sqlite3.SQLITE_NOTADB:
        return NotAStore(f"{url} is a file but not an SQLite database; choose another path")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(f"{url} stayed locked by another process; retry, or look for one that hangs")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(f"{url} can't be opened; does its directory exist, and may we write there?")
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(f"{url} is read-only; holdfast needs to write to the file and its directory")
    return StoreUnavailable(f"{url}: {error}")


@contextlib.contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise the driver's errors as ours."""
    try:
        yield
    except sqlite3.Error as exc:
        raise translate(exc, url) from exc
