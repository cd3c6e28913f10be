"""What the door gives back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model import JSON, Erased, Header, loads

__all__ = ["ARCHIVED", "ConversationInfo", "Listing", "Purged"]

ARCHIVED: Final = "archived"
"""The status of a conversation that lists leave out unless they are asked for it."""


class ConversationInfo(msgspec.Struct, frozen=True):
    """
    A conversation without its log. Times are microseconds since 1970 (UTC).

    ``version`` guards changes of title, status, metadata and settings; messages do not change it.
    """

    id: str
    title: str
    status: str
    agent: str
    metadata: dict[str, JSON]
    settings: dict[str, JSON]
    created_at: int
    activity: int
    last_seq: int
    version: int
    forked_from: str | None = None
    forked_at: int = 0

    @classmethod
    def of(cls, header: Header) -> ConversationInfo:
        """What an application sees of a header."""
        return cls(
            header.key.id,
            header.title,
            header.status,
            header.agent,
            _object(header.metadata),
            _object(header.settings),
            header.created_at,
            header.activity,
            header.last_seq,
            header.version,
            header.forked_from,
            header.forked_at,
        )


def _object(data: bytes) -> dict[str, JSON]:
    value = loads(data)
    return value if isinstance(value, dict) else {}


class Listing(msgspec.Struct, frozen=True):
    """Some conversations, the most active first, and the cursor of what follows; None at the end."""

    conversations: tuple[ConversationInfo, ...]
    older: str | None = None


class Purged(msgspec.Struct, frozen=True):
    """
    What a purge removed, or would remove.

    A dry run removes nothing: ``erased`` is empty then, and ``ids`` are those that would go.
    """

    ids: tuple[str, ...]
    erased: Erased
    dry_run: bool


def cursor_of(header: Header) -> str:
    """The cursor of what follows a conversation in a list by activity."""
    return f"{header.activity}.{header.key.id}"


def place_of(cursor: str) -> tuple[int, str]:
    """
    What stores take as ``before``.

    Raises:
        InvalidInput: It is no cursor.
    """
    activity, dot, id = cursor.partition(".")
    if not (dot and id and activity.isascii() and activity.isdecimal()):
        raise InvalidInput(f"{cursor!r} is no cursor; use what a listing gave as older")
    return int(activity), id


def matches(header: Header, status: str | None, metadata: Mapping[str, JSON]) -> bool:
    """Whether a list has this conversation. Without a status, it has all but the archived."""
    if header.status != status if status is not None else header.status == ARCHIVED:
        return False
    if not metadata:
        return True
    has = ConversationInfo.of(header).metadata
    return all(name in has and has[name] == value for name, value in metadata.items())
