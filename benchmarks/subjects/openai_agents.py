"""OpenAI Agents SDK: what its sessions have in common, one object a conversation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from benchmarks.messages import Message
from benchmarks.subject import Subject

_FILL = 100


class OpenAIAgents(Subject[Message]):
    """Items are plain dicts and a turn is one ``add_items``. The protocol knows no owner and no list."""

    @abstractmethod
    def _begin(self, conversation: str) -> Any:
        """A session object for a conversation, new or not."""

    async def _end(self, session: Any) -> None:
        """Let go of what a session object holds of its own."""

    async def open(self) -> None:
        self._sessions: dict[str, Any] = {}

    async def close(self) -> None:
        for session in self._sessions.values():
            await self._end(session)

    def prepare(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    async def create(self, conversation: str) -> None:
        self._session(conversation)

    async def append(self, conversation: str, message: Message) -> None:
        await self._session(conversation).add_items([message])

    async def turn(self, conversation: str, messages: Sequence[Message]) -> None:
        await self._session(conversation).add_items(list(messages))

    async def fill(self, conversation: str, messages: Sequence[Message]) -> None:
        for start in range(0, len(messages), _FILL):
            await self._session(conversation).add_items(list(messages[start : start + _FILL]))

    async def fill_crowd(self, crowd: Sequence[tuple[str, Sequence[Message]]]) -> None:
        for conversation, messages in crowd:
            await self.fill(conversation, messages)
            # A session may hold a connection; a thousand of them would exhaust the file handles.
            await self._end(self._sessions.pop(conversation))

    async def load(self, conversation: str) -> Sequence[Any]:
        items: list[Any] = await self._session(conversation).get_items()
        return items

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        items: list[Any] = await self._session(conversation).get_items(count)
        return items

    def _session(self, conversation: str) -> Any:
        if conversation not in self._sessions:
            self._sessions[conversation] = self._begin(conversation)
        return self._sessions[conversation]
