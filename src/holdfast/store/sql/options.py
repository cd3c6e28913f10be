"""Parameters of a URL that are read the same way for every server."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidInput


def choice(shown: str, given: dict[str, str], name: str, default: str, *others: str) -> Any:
    """A parameter that is one of a few words."""
    value = given.get(name, default)
    if value not in (default, *others):
        raise InvalidInput(f"{shown}: {name} is {' or '.join((default, *others))}, not {value!r}")
    return value


def number(shown: str, given: dict[str, str], name: str, default: str, *, least: float) -> float:
    """A parameter that is a number from ``least`` up."""
    value = given.get(name, default)
    try:
        parsed = float(value)
    except ValueError:
        parsed = float("nan")
    if not least <= parsed < 1e6:
        raise InvalidInput(f"{shown}: {name} is a number from {least:g} up, not {value!r}")
    return parsed
