"""OpenAI Agents SDK: ``SQLAlchemySession``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from agents.extensions.memory import SQLAlchemySession  # type: ignore[import-not-found]
from sqlalchemy import String  # type: ignore[import-not-found]
from sqlalchemy.ext.asyncio import create_async_engine  # type: ignore[import-not-found]

from benchmarks.places import Place
from benchmarks.subjects.openai_agents import OpenAIAgents


class OpenAIPostgres(OpenAIAgents):
    """One engine with its default pool for all sessions."""

    driver: ClassVar[str] = "asyncpg"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._place = Place.of(directory)
        # Imports the driver, which is no part of opening; it connects later.
        self._engine = create_async_engine(self._place.sqlalchemy_url(self.driver))

    async def open(self) -> None:
        await super().open()
        if self._place.fresh:
            await self._place.prepare()
            await self._create_tables()

    async def close(self) -> None:
        await super().close()
        await self._engine.dispose()

    def _begin(self, conversation: str) -> Any:
        return SQLAlchemySession(conversation, engine=self._engine)

    async def _create_tables(self) -> None:
        await SQLAlchemySession("c0", engine=self._engine, create_tables=True).get_items(1)


class OpenAIMySQL(OpenAIPostgres):
    """The same on MySQL."""

    driver = "asyncmy"

    async def _create_tables(self) -> None:
        session = SQLAlchemySession("c0", engine=self._engine)
        for table in (session._sessions, session._messages):
            # Its own statement has no length, which MySQL refuses: users must make these tables themselves.
            table.c.session_id.type = String(255)
        async with self._engine.begin() as connection:
            await connection.run_sync(session._metadata.create_all)
