"""Named queries with named parameters, in the form that a driver takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, Self

import msgspec

from holdfast.store.named import load_queries

Words = tuple[tuple[str, str], ...]

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")


class Statement(msgspec.Struct, frozen=True):
    """SQL as a driver takes it, and the names of its parameters in the order of their numbers."""

    sql: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str, mark: Callable[[int], str]) -> Self:
        """Write ``:name`` as the driver's mark of a numbered parameter, the same for the same name."""
        numbers: dict[str, int] = {}

        def numbered(match: re.Match[str]) -> str:
            return mark(numbers.setdefault(match.group(1), len(numbers) + 1))

        return cls(_PARAMETER.sub(numbered, text), tuple(numbers))

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the parameters."""
        return [values[name] for name in self.names]


@lru_cache(64)
def load_statements(package: str, words: Words, mark: Callable[[int], str]) -> SimpleNamespace:
    """The named queries of a package, as attributes of their names, with ``{words}`` filled in."""
    texts = vars(load_pieces(package, "queries.sql", words))
    return SimpleNamespace(**{name: Statement.of(text, mark) for name, text in texts.items()})


@lru_cache(64)
def load_pieces(package: str, file: str, words: Words) -> SimpleNamespace:
    """The named pieces of SQL of a file, to be put together."""
    texts = vars(load_queries(package, file))
    return SimpleNamespace(**{name: fill(text, words) for name, text in texts.items()})


def load_scripts(package: str, words: Words) -> dict[str, str]:
    """The migrations of a package by name, oldest first."""
    folder = files(package).joinpath("migrations")
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return {s.name.removesuffix(".sql"): fill(s.read_text("utf-8"), words) for s in scripts}


def fill(text: str, words: Words) -> str:
    """Put in what differs from one place to the next: the schema or prefix, the clock."""
    for word, meaning in words:
        text = text.replace(f"{{{word}}}", meaning)
    return text
