"""What a library must be able to do to be measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.messages import Message

M = TypeVar("M")

OWNERS = 10


def owner_of(conversation: str) -> str:
    """Whose conversation it is: they are called c0, c1, … and belong to ten owners in turn."""
    return f"owner-{int(conversation[1:]) % OWNERS}"


class Subject(ABC, Generic[M]):
    """
    One library, used as its documentation says and with its defaults.

    ``M`` is its own type of message. Each write is as durable on return as the library makes it.
    Everything it stores is below ``directory``, or in the place on a server that ``directory`` stands for.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @abstractmethod
    async def open(self) -> None:
        """Make it ready, with its tables."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of its files."""

    @abstractmethod
    def prepare(self, messages: Sequence[Message]) -> list[M]:
        """The messages in the library's own type, as an application would hold them. Never timed."""

    @abstractmethod
    async def create(self, conversation: str) -> None:
        """Begin a conversation, where the library knows such a step."""

    @abstractmethod
    async def append(self, conversation: str, message: M) -> None:
        """Store one message."""

    @abstractmethod
    async def turn(self, conversation: str, messages: Sequence[M]) -> None:
        """Store one turn the way the library does it."""

    @abstractmethod
    async def fill(self, conversation: str, messages: Sequence[M]) -> None:
        """Store many messages by the fastest way there is. Never timed."""

    @abstractmethod
    async def load(self, conversation: str) -> Sequence[Any]:
        """All messages, decoded."""

    @abstractmethod
    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        """The last messages, decoded; a library that can't select them loads all and cuts."""

    async def resume(self, conversation: str, count: int) -> Sequence[Any]:
        """What is needed to go on with a conversation."""
        return await self.newest(conversation, count)

    async def list_newest(self, owner: str, count: int) -> Sequence[Any] | None:
        """The owner's conversations that were active last, or None if the library has no such call."""
        return None

    async def brace(self, writers: int) -> None:
        """Make ready for that many appends at once, as an application would that expects them. Never timed."""

    async def settle(self) -> None:
        """Wait until nothing that was written is still worked on in the background."""

    async def fill_crowd(self, crowd: Sequence[tuple[str, Sequence[M]]]) -> None:
        """Store many conversations, each an id and its messages. Never timed."""
        for conversation, messages in crowd:
            await self.create(conversation)
            await self.fill(conversation, messages)
