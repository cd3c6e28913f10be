"""Named queries: SQL lives in ``.sql`` files, one ``-- name:`` line before each statement."""

from __future__ import annotations

import re
from importlib.resources import files
from types import SimpleNamespace

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load_queries(package: str, file: str = "queries.sql") -> SimpleNamespace:
    """The statements of a package's SQL file, as attributes of their names."""
    _, *parts = _NAME.split(files(package).joinpath(file).read_text("utf-8"))
    statements = {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return SimpleNamespace(**statements)
