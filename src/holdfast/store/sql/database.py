"""What the shared code asks of a dialect's driver."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Protocol

from holdfast.store.sql.statements import Statement

Row = Sequence[Any]

ENDLESS = 2**62
"""Above every seq, count and time, and inside the integers of every server."""


class Database(Protocol):
    """Runs one statement, on any connection or inside a transaction."""

    async def fetch(self, statement: Statement, **values: Any) -> list[Row]:
        """
        The rows of a statement.

        Raises:
            StoreUnavailable: The server can't be reached, or nobody knows whether it did it.
            StoreError: The server refused it, and nothing was changed.
        """
        ...


def bounded(number: int | None) -> int:
    """A bound that a caller gave; None is beyond all."""
    return ENDLESS if number is None else number


def split(number: int) -> tuple[int, int]:
    """The incarnation and the counter of a revision or fence."""
    return number >> 32, number & 0xFFFFFFFF


def digest(*names: str) -> bytes:
    """A key of 32 bytes for names that together are too long for an index."""
    joined = b"".join(b"%d:%b" % (len(raw), raw) for raw in (name.encode() for name in names))
    return sha256(joined).digest()


def after_prefix(prefix: str) -> str | None:
    """The least string above all that start with ``prefix``; None if there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[i]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[:i] + chr(code)
    return None
