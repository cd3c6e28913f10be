"""How what was said and done becomes the operations of a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from holdfast.errors import MessageTooLarge, StaleHeader
from holdfast.ids import MAX_NAME_BYTES, ConversationKey
from holdfast.model import (
    JSON,
    MEDIA,
    Decision,
    Input,
    Message,
    Payload,
    Suspension,
    ToolCall,
    ToolResult,
    dumps,
    encode,
    loads,
    search_text,
    set_aside,
    type_of,
)
from holdfast.model.records import Call, Header
from holdfast.store import Append, Op, OpenCall, PutRecord, SetHeader, Store

__all__ = ["CallFacts", "appended", "facts_of", "opened", "recorded", "tool_name", "update_header"]

MEDIA_ABOVE: Final = 32 << 10
"""Inline media of more bytes is stored once, by its hash, beside the log."""

_TRIES = 50


class CallFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What the row of a call carries beside its status.

    ``wait`` is what it waits for. ``decision`` and what follows are the answer that let it go on; edited
    arguments stand beside the original ones.
    """

    args: JSON = None
    wait: Suspension | None = None
    decision: Decision | None = None
    edited: JSON = None
    answer: JSON = None
    actor: str | None = None

    @property
    def granted(self) -> bool:
        """Whether a person let it go on."""
        return self.decision in ("approve", "edit", "answer")

    @property
    def effective_args(self) -> JSON:
        """The arguments to call with."""
        return self.edited if self.decision == "edit" else self.args

    def to_bytes(self) -> bytes:
        """
        As a call's ``data``.

        Raises:
            InvalidPayload: Something in it is not JSON.
        """
        return dumps(msgspec.to_builtins(self))


def facts_of(call: Call) -> CallFacts:
    """What the row of a call carries; nothing, if somebody else wrote it."""
    try:
        return msgspec.convert(loads(call.data), CallFacts) if call.data else CallFacts()
    except ValueError:
        return CallFacts()


def appended(payload: Payload, *, id: str | None = None) -> Append:
    """
    The append of a payload, with what search finds it by.

    Raises:
        InvalidPayload: Something in it is not JSON.
    """
    return Append(type_of(payload), encode(payload), id, search_text(payload))


def recorded(payload: Payload, *, max_message: int | None = None) -> tuple[Payload, list[Op]]:
    """
    A payload as it stands in the log, and the operations that put it there: large media beside it.

    A message is known by its id, so appending it again appends nothing.

    Raises:
        InvalidPayload: Something in it is not JSON.
        MessageTooLarge: It has more bytes than ``max_message``, media included.
    """
    media: Mapping[str, bytes] = {}
    if isinstance(payload, (Message, ToolResult, Input)):
        parts, media = set_aside(payload.parts, above=MEDIA_ABOVE)
        if media:
            payload = msgspec.structs.replace(payload, parts=parts)
    append = appended(payload, id=payload.id if isinstance(payload, Message) else None)
    size = len(append.data) + sum(map(len, media.values()))
    if max_message is not None and size > max_message:
        raise MessageTooLarge(size, max_message)
    return payload, [*(PutRecord(MEDIA, hash, data, keep=True) for hash, data in media.items()), append]


def opened(message: Message) -> list[OpenCall]:
    """
    The calls of a message, each as a row.

    A provider that executes a call has done so already; unfinished ones are never made.

    Raises:
        InvalidKey: The id of a call breaks the rules of names.
    """
    if message.role != "assistant":
        return []
    return [
        OpenCall(
            call.call_id,
            tool_name(call),
            "completed" if call.executor == "provider" else "pending",
            call.executor,
            CallFacts(args=call.raw_args if call.args is None else call.args).to_bytes(),
        )
        for call in message.calls
        if not call.unfinished
    ]


def tool_name(call: ToolCall) -> str:
    """A model makes up names that no store could keep; the message has it as it was."""
    name = call.name.replace("\0", "").encode("utf-8", "replace")[:MAX_NAME_BYTES]
    return name.decode("utf-8", "ignore") or "unknown"


async def update_header(
    store: Store,
    key: ConversationKey,
    field: Literal["metadata", "settings"],
    change: Callable[[dict[str, JSON]], Mapping[str, JSON]],
    *,
    version: int | None = None,
) -> Header:
    """
    Change an object in the header; nobody's change in between is overwritten.

    Without a ``version`` it is tried again on what somebody else left.

    Raises:
        NotFound: There is no such conversation for this owner.
        StaleHeader: The header does not have that version.
        InvalidPayload: The new object is not JSON.
    """
    for left in reversed(range(_TRIES)):
        header = await store.header(key)
        data = dumps(dict(change(_object(getattr(header, field)))))
        when = header.version if version is None else version
        changed = (
            SetHeader(metadata=data, when=when)
            if field == "metadata"
            else SetHeader(settings=data, when=when)
        )
        try:
            await store.commit(key, [changed])
        except StaleHeader:
            if version is not None or not left:
                raise
        else:
            break
    return await store.header(key)


def _object(data: bytes) -> dict[str, JSON]:
    value = loads(data)
    return value if isinstance(value, dict) else {}
