"""Durable conversations for AI agents: kill the process, and the conversation goes on where it was, once."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
