"""Google ADK: ``SqliteSessionService``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.sessions.sqlite_session_service import SqliteSessionService  # type: ignore[import-not-found]

from benchmarks.subjects.adk import APP, Adk, date_events


class AdkSQLite(Adk):
    """``SqliteSessionService``, which its command line uses."""

    async def open(self) -> None:
        await super().open()
        self._service = SqliteSessionService(str(self.directory / "adk.db"))

    async def fill(self, conversation: str, messages: Sequence[Any]) -> None:
        session = self._sessions.pop(conversation)
        date_events(messages)
        rows = [
            (
                message.id,
                APP,
                session.user_id,
                conversation,
                message.invocation_id,
                message.timestamp,
                message.model_dump_json(exclude_none=True),
            )
            for message in messages
        ]
        async with self._service._get_db_connection() as database:
            await database.executemany(
                "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            await database.commit()
