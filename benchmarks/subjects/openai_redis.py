"""OpenAI Agents SDK: ``RedisSession``."""

from __future__ import annotations

from typing import Any

from agents.extensions.memory import RedisSession  # type: ignore[import-not-found]
from redis.asyncio import Redis

from benchmarks.places import Place, server_url
from benchmarks.subjects.openai_agents import OpenAIAgents


class OpenAIRedis(OpenAIAgents):
    """One client for all sessions."""

    async def open(self) -> None:
        await super().open()
        self._prefix = Place.of(self.directory).name
        self._client = Redis.from_url(server_url())

    async def close(self) -> None:
        await super().close()
        await self._client.aclose()

    def _begin(self, conversation: str) -> Any:
        return RedisSession(conversation, redis_client=self._client, key_prefix=self._prefix)
