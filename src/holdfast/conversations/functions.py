"""A host's own storage as two plain functions, and the primitives over it: restore, append, snapshot."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from holdfast.conversations.conversation import Snapshot
from holdfast.conversations.items import Format, check_format, payloads, written
from holdfast.conversations.known import Known
from holdfast.errors import InvalidInput
from holdfast.model import Event, dumps, encode, loads, type_of
from holdfast.views import logged

__all__ = ["HostConversation", "Item", "open_host"]

Item: TypeAlias = dict[str, Any]
"""What a host keeps: a JSON object with ``type`` and ``data``, to be given back as it is and in order."""

Load: TypeAlias = Callable[[], Sequence[Item] | Awaitable[Sequence[Item]]]
Append: TypeAlias = Callable[[Sequence[Item]], Awaitable[None] | None]


async def open_host(load: Load, append: Append) -> HostConversation:
    """
    A conversation that the host keeps.

    ``load`` gives all items, oldest first; ``append`` takes new ones and returns when they are as durable as
    the host wants them. Either may be plain or asynchronous.

    >>> import asyncio
    >>> kept: list[Item] = []
    >>> async def main() -> None:
    ...     conversation = await open_host(lambda: kept, kept.extend)
    ...     await conversation.append("Flights to Lisbon?")
    ...     again = await open_host(lambda: kept, kept.extend)
    ...     print(again.transcript(format="openai"))
    >>> asyncio.run(main())
    [{'role': 'user', 'content': 'Flights to Lisbon?'}]

    Raises:
        InvalidInput: An item is not one that ``append`` was given.
    """
    conversation = HostConversation(append)
    found = load()
    for item in await found if inspect.isawaitable(found) else found:
        conversation._take(item)
    return conversation


class HostConversation:
    """
    A conversation whose items a host keeps. It belongs to one task at a time.

    What a store does beyond keeping items (races, calls with a status, search, leases) it does not do.
    """

    def __init__(self, append: Append) -> None:
        self._append = append
        self._known = Known()
        self._format: Format | None = None
        self._seqs = itertools.count(1)

    @property
    def seq(self) -> int:
        """How many items there are."""
        return self._known.seq

    def transcript(self, format: Format | None = None) -> Any:
        """
        What a model gets: valid for every provider, whatever happened before. As ``Conversation.transcript``.

        Raises:
            InvalidInput: There is no such format.
        """
        turns = self._known.transcript.turns
        if format is None:
            return turns
        self._format = check_format(format)
        return written(turns, format, {})

    async def append(self, *items: object, format: Format | None = None) -> None:
        """
        Add to the conversation: messages of an SDK, texts of the user, payloads of ``holdfast.model``.

        Raises:
            InvalidInput: An item can't be read.
        """
        given = self._known.named(payloads(items, format or self._format))
        kept = [Item(type=type_of(payload), data=loads(encode(payload))) for payload in given]
        done = self._append(kept)
        if inspect.isawaitable(done):
            await done
        for item in kept:
            self._take(item)

    def snapshot(self) -> Snapshot:
        """What is known now: the transcript, and input that no model was given yet."""
        return Snapshot.of(self._known)

    def _take(self, item: Item) -> None:
        try:
            event = Event(next(self._seqs), item["type"], dumps(item["data"]), 0)
        except (TypeError, KeyError) as exc:
            raise InvalidInput(f"an item has `type` and `data`; this is none: {item!r:.80}") from exc
        self._known.apply(logged(event))
