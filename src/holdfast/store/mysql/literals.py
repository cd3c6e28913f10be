"""
Values as SQL.

The connection is told that texts are binary: a literal is the bytes that are stored or compared, and
no character set plays a part. Backslashes escape, because the connection sets its ``sql_mode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.store.sql.statements import Statement

NOTHING = b"''"
"""An empty list. Lists are of names that are never empty, or of numbers from 1 up."""


class Table(msgspec.Struct):
    """Rows that a statement selects from."""

    names: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


class Part(msgspec.Struct):
    """SQL inside SQL."""

    sql: bytes


def named(number: int) -> str:
    """A parameter in the form that ``written`` fills in."""
    return f"%({number})b"


def written(statement: Statement, **values: Any) -> bytes:
    """A statement with its values."""
    literals = {b"%d" % n: literal(values[name]) for n, name in enumerate(statement.names, 1)}
    return statement.sql.encode() % literals


def literal(value: Any) -> bytes:
    """A value as SQL; a list is its members, a list of rows what VALUES takes."""
    match value:
        case None:
            return b"NULL"
        case bytes():
            return _quoted(value)
        case str():
            return _quoted(value.encode())
        case int():
            return b"%d" % value
        case tuple():
            return b"(%b)" % b",".join(map(literal, value))
        case list():
            return b",".join(map(literal, value)) or NOTHING
        case Table():
            return _selected(value)
        case Part():
            return value.sql
    raise TypeError(f"no literal for {type(value).__name__}")


def _quoted(value: bytes) -> bytes:
    if b"\\" in value:
        value = value.replace(b"\\", b"\\\\")
    if b"'" in value:
        value = value.replace(b"'", b"\\'")
    if b"\0" in value:
        value = value.replace(b"\0", b"\\0")
    return b"'%b'" % value


def _selected(table: Table) -> bytes:
    first, *others = ([literal(value) for value in row] for row in table.rows)
    names = (b"%b AS %b" % (value, name.encode()) for value, name in zip(first, table.names, strict=True))
    return b" UNION ALL ".join(
        (b"SELECT " + b",".join(names), *(b"SELECT " + b",".join(row) for row in others))
    )
