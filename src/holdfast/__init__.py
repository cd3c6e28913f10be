"""Durable conversations for AI agents: kill the process, and the conversation goes on where it was, once."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.hub import connect

__all__ = ["__version__", "connect"]

__version__ = "0.1.0"

_LAZY = {"connect": "holdfast.hub"}


def __getattr__(name: str) -> object:
    # Importing holdfast stays cheap: what it offers is loaded when it is first asked for.
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
