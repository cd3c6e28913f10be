"""Google ADK: ``DatabaseSessionService``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from google.adk.sessions import DatabaseSessionService  # type: ignore[import-not-found]

from benchmarks.places import Place
from benchmarks.subjects.adk import Adk, date_events


class AdkDatabase(Adk):
    """``DatabaseSessionService``, which its documentation names for databases, on a file."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        # Imports the driver, which is no part of opening; it connects later.
        self._service = DatabaseSessionService(self._url())

    async def open(self) -> None:
        await super().open()
        await self._service.prepare_tables()

    async def fill(self, conversation: str, messages: Sequence[Any]) -> None:
        session = self._sessions.pop(conversation)
        schema = self._service._get_schema_classes()
        date_events(messages)
        async with self._service.database_session_factory() as database:
            database.add_all([schema.StorageEvent.from_event(session, message) for message in messages])
            await database.commit()

    def _url(self) -> str:
        return f"sqlite+aiosqlite:///{self.directory}/adk.db"


class AdkPostgres(AdkDatabase):
    """The same on PostgreSQL."""

    driver: ClassVar[str] = "asyncpg"

    async def open(self) -> None:
        await self._place.prepare()
        await super().open()

    def _url(self) -> str:
        self._place = Place.of(self.directory)
        return self._place.sqlalchemy_url(self.driver)


class AdkMySQL(AdkPostgres):
    """The same on MySQL."""

    driver = "asyncmy"
