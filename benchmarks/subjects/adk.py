"""Google ADK: what its session services have in common. None stores several events at once."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from google.adk.events.event import Event  # type: ignore[import-not-found]
from google.adk.sessions.base_session_service import GetSessionConfig  # type: ignore[import-not-found]
from google.genai import types  # type: ignore[import-not-found]

from benchmarks.messages import Message
from benchmarks.subject import Subject, owner_of

APP = "bench"


class Adk(Subject[Any]):
    """A message is one ``append_event``, a turn four. A list has all of a user's sessions, always."""

    _service: Any

    @abstractmethod
    async def fill(self, conversation: str, messages: Sequence[Any]) -> None:
        """The rows that ``append_event`` writes, in one transaction."""

    async def open(self) -> None:
        self._sessions: dict[str, Any] = {}

    async def close(self) -> None:
        await self._service.close()

    def prepare(self, messages: Sequence[Message]) -> list[Any]:
        return [_event(message) for message in messages]

    async def create(self, conversation: str) -> None:
        self._sessions[conversation] = await self._service.create_session(
            app_name=APP, user_id=owner_of(conversation), session_id=conversation
        )

    async def append(self, conversation: str, message: Any) -> None:
        if conversation not in self._sessions:
            self._sessions[conversation] = await self._get(
                conversation, GetSessionConfig(num_recent_events=1)
            )
        message.timestamp = time.time()
        await self._service.append_event(self._sessions[conversation], message)

    async def turn(self, conversation: str, messages: Sequence[Any]) -> None:
        for message in messages:
            await self.append(conversation, message)

    async def load(self, conversation: str) -> Sequence[Any]:
        events: list[Any] = (await self._get(conversation, None)).events
        return events

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        events: list[Any] = (await self._get(conversation, GetSessionConfig(num_recent_events=count))).events
        return events

    async def resume(self, conversation: str, count: int) -> Sequence[Any]:
        self._sessions[conversation] = await self._get(
            conversation, GetSessionConfig(num_recent_events=count)
        )
        events: list[Any] = self._sessions[conversation].events
        return events

    async def list_newest(self, owner: str, count: int) -> Sequence[Any]:
        answer = await self._service.list_sessions(app_name=APP, user_id=owner)
        sessions: list[Any] = answer.sessions
        return sessions[-count:]

    async def _get(self, conversation: str, config: Any) -> Any:
        return await self._service.get_session(
            app_name=APP, user_id=owner_of(conversation), session_id=conversation, config=config
        )


def date_events(messages: Sequence[Any]) -> None:
    """Times that ascend up to now: the services sort by them."""
    start = time.time() - 1e-3 * len(messages)
    for n, message in enumerate(messages):
        message.timestamp = start + 1e-3 * n


def _event(message: Message) -> Any:
    match message["role"]:
        case "user":
            author, role, parts = "user", "user", [types.Part(text=message["content"])]
        case "assistant":
            calls = [
                types.FunctionCall(
                    id=call["id"],
                    name=call["function"]["name"],
                    args=json.loads(call["function"]["arguments"]),
                )
                for call in message["tool_calls"]
            ]
            author, role = "agent", "model"
            parts = [types.Part(text=message["content"]), *(types.Part(function_call=call) for call in calls)]
        case _:
            response = types.FunctionResponse(
                id=message["tool_call_id"], name=message["name"], response={"result": message["content"]}
            )
            author, role, parts = "agent", "user", [types.Part(function_response=response)]
    content = types.Content(role=role, parts=parts)
    return Event(author=author, invocation_id="bench", content=content)
