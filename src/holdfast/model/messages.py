"""
What a model and a person say to each other: messages, and the parts they are made of.

A part that this version does not know is carried along as ``UnknownPart``, so a conversation that a
newer version wrote to stays readable here and loses nothing when it is written again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.records import Executor

JSON: TypeAlias = Any
"""None, a bool, an int, a finite float, a string, a list or a dict with string keys."""

Role = Literal["system", "user", "assistant"]

StopReason = Literal["end", "tool_calls", "length", "refusal", "cancelled", "error", "cut"]
"""
Why a message ends where it ends.

``end`` and ``tool_calls`` are what was hoped for. ``length``: the token limit. ``refusal``: the model or
a filter declined. ``cancelled``: a person stopped it. ``error``: the provider said so. ``cut``: the
stream died without a word.
"""

MEDIA: Final = "media"
"""The collection of records that ``Stored`` points into, by hash."""


class Url(msgspec.Struct, frozen=True, omit_defaults=True, tag="url"):
    """Media that somebody else serves."""

    url: str


class Inline(msgspec.Struct, frozen=True, omit_defaults=True, tag="inline"):
    """Media inside the message, as base64."""

    data: str

    @classmethod
    def of(cls, content: bytes) -> Self:
        """The source that carries these bytes."""
        return cls(base64.b64encode(content).decode())

    def content(self) -> bytes:
        """
        The bytes themselves.

        Raises:
            InvalidPayload: ``data`` is not base64.
        """
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError) as exc:
            raise InvalidPayload("$.data", f"is not base64 ({exc}); use Inline.of(bytes)") from exc


class Stored(msgspec.Struct, frozen=True, omit_defaults=True, tag="stored"):
    """Media in the record ``media/<hash>`` of the conversation; equal bytes are stored once."""

    hash: str
    size: int

    @classmethod
    def of(cls, content: bytes) -> Self:
        """The source that points to these bytes once they are in the record of that hash."""
        return cls(sha256(content).hexdigest(), len(content))


Source: TypeAlias = Url | Inline | Stored


class Text(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """Words, for models and people."""

    text: str


class Thinking(msgspec.Struct, frozen=True, omit_defaults=True, tag="thinking"):
    """
    What a model thought before it answered.

    ``signature`` is the provider's proof that the text is its own. ``encrypted`` is thinking that only
    the provider can read. ``provider_id`` is its name for this block. All three go back as they came.
    """

    text: str = ""
    signature: str | None = None
    encrypted: str | None = None
    provider_id: str | None = None


class Image(msgspec.Struct, frozen=True, omit_defaults=True, tag="image"):
    """A picture."""

    source: Source
    media_type: str | None = None


class File(msgspec.Struct, frozen=True, omit_defaults=True, tag="file"):
    """A document, a sound, a film: anything with a name and a media type."""

    source: Source
    name: str | None = None
    media_type: str | None = None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, tag="tool_call"):
    """
    A call that the model wants made.

    ``call_id`` is ours and unique in the conversation: it keys the call's row. ``provider_id`` is the
    provider's, which repeats. When the arguments did not parse, ``args`` is None and ``raw_args`` has
    their text. ``unfinished`` calls were cut off while the model wrote them; they are never made.
    ``signature`` goes back to the provider as it came.
    """

    call_id: str
    name: str
    args: JSON = {}
    provider_id: str | None = None
    raw_args: str | None = None
    executor: Executor = "server"
    signature: str | None = None
    unfinished: bool = False


class Data(msgspec.Struct, frozen=True, omit_defaults=True, tag="data"):
    """A structured value, such as a tool's result or an answer that follows a schema."""

    value: JSON
    name: str | None = None


class Custom(msgspec.Struct, frozen=True, omit_defaults=True, tag="custom"):
    """What no other part foresaw; ``kind`` is the application's own word."""

    kind: str
    value: JSON = None


class UnknownPart(msgspec.Struct, frozen=True):
    """A part that a newer version wrote: ``tag`` is what it calls it, ``json`` is written back unchanged."""

    tag: str
    json: str


KnownPart: TypeAlias = Text | Thinking | Image | File | ToolCall | Data | Custom

# msgspec must not see UnknownPart: it would encode and decode it as one more tagged struct instead of
# failing, which is how the codec notices that it has to carry something along.
if TYPE_CHECKING:
    Part: TypeAlias = KnownPart | UnknownPart
else:
    Part = KnownPart


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What a model call used.

    ``cached_tokens`` and ``cache_write_tokens`` are parts of ``input_tokens``, ``reasoning_tokens`` of
    ``output_tokens``. ``cost`` is in billionths of a dollar, so that sums are exact; None is unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int | None = None


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    One turn of the transcript.

    ``inputs`` are the seqs of the ``input`` events that it delivers. ``partial`` means that the model
    was not done; ``stop`` says why it ended, and ``stop_detail`` has the provider's own word for it. What
    tools answer is not a message but a ``tool_result`` event.
    """

    id: str
    role: Role
    parts: tuple[Part, ...] = ()
    inputs: tuple[int, ...] = ()
    stop: StopReason | None = None
    stop_detail: str | None = None
    partial: bool = False
    model: str | None = None
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """All its text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


def set_aside(parts: Sequence[Part], *, above: int) -> tuple[tuple[Part, ...], dict[str, bytes]]:
    """
    Move inline media of more than ``above`` bytes out of the parts.

    Returns the parts with ``Stored`` in its place, and the bytes by hash: put each into the
    collection ``MEDIA`` with ``keep=True`` in the commit that appends the parts.

    Raises:
        InvalidPayload: Inline media is not base64.
    """
    kept: list[Part] = []
    media: dict[str, bytes] = {}
    for index, part in enumerate(parts):
        if isinstance(part, (Image, File)) and isinstance(part.source, Inline):
            try:
                content = part.source.content()
            except InvalidPayload as exc:
                raise InvalidPayload(f"$[{index}].source.data", exc.why) from exc
            if len(content) > above:
                stored = Stored.of(content)
                media[stored.hash] = content
                part = msgspec.structs.replace(part, source=stored)
        kept.append(part)
    return tuple(kept), media
