"""LangGraph with ``AsyncSqliteSaver``."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # type: ignore[import-not-found]

from benchmarks.subjects.langgraph import LangGraph


class LangGraphSQLite(LangGraph):
    """One connection, as ``from_conn_string`` makes it."""

    async def _make_saver(self) -> Any:
        return AsyncSqliteSaver.from_conn_string(str(self.directory / "langgraph.db"))
