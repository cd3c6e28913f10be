"""OpenAI Agents SDK: ``SQLiteSession``."""

from __future__ import annotations

from typing import Any

from agents import SQLiteSession  # type: ignore[import-not-found]

from benchmarks.subjects.openai_agents import OpenAIAgents


class OpenAISQLite(OpenAIAgents):
    """A file, with a connection of its own for each session."""

    def _begin(self, conversation: str) -> Any:
        return SQLiteSession(conversation, self.directory / "openai.db")

    async def _end(self, session: Any) -> None:
        session.close()
