"""Google ADK: ``DatabaseSessionService``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.sessions import DatabaseSessionService  # type: ignore[import-not-found]

from benchmarks.subjects.adk import Adk, date_events


class AdkDatabase(Adk):
    """``DatabaseSessionService``, which its documentation names for databases."""

    async def open(self) -> None:
        await super().open()
        self._service = DatabaseSessionService(f"sqlite+aiosqlite:///{self.directory}/adk.db")
        await self._service.prepare_tables()

    async def fill(self, conversation: str, messages: Sequence[Any]) -> None:
        session = self._sessions.pop(conversation)
        schema = self._service._get_schema_classes()
        date_events(messages)
        async with self._service.database_session_factory() as database:
            database.add_all([schema.StorageEvent.from_event(session, message) for message in messages])
            await database.commit()
