"""LangGraph with ``AsyncPostgresSaver``."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # type: ignore[import-not-found]

from benchmarks.places import Place
from benchmarks.subjects.langgraph import LangGraph


class LangGraphPostgres(LangGraph):
    """One connection, as ``from_conn_string`` makes it."""

    async def _make_saver(self) -> Any:
        place = Place.of(self.directory)
        await place.prepare()
        return AsyncPostgresSaver.from_conn_string(place.url)
