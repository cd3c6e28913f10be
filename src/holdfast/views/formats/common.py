"""What all formats share: ids and names that providers take, and text for what they can't carry."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias
from uuid import uuid4

from holdfast.errors import InvalidInput
from holdfast.model.codec import dumps, loads
from holdfast.model.events import ToolResult
from holdfast.model.messages import (
    JSON,
    Custom,
    Data,
    File,
    Image,
    Inline,
    Message,
    Part,
    Source,
    StopReason,
    Stored,
    Text,
    ToolCall,
    UnknownPart,
    Url,
)
from holdfast.views.repair import Turn, repair

Wire: TypeAlias = dict[str, Any]
Media: TypeAlias = Mapping[str, bytes]

_PRIVATE = ("openai.", "responses.", "anthropic.", "langchain.")
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]+)*;base64,(.*)", re.DOTALL)


def new_id() -> str:
    """A new message id."""
    return f"msg_{uuid4().hex}"


def is_private(part: Custom) -> bool:
    """Whether a part is a provider's own block, which goes back to it verbatim and to nobody else."""
    return part.kind.startswith(_PRIVATE)


def stored(turns: Iterable[Turn]) -> frozenset[str]:
    """
    The hashes of the media that these turns keep outside the log: what ``media`` of a converter takes.

    >>> stored([Message("m", "user", (Image(Stored("ab", 9)),))])
    frozenset({'ab'})
    """
    return frozenset(
        part.source.hash
        for turn in turns
        for part in turn.parts
        if isinstance(part, (Image, File)) and isinstance(part.source, Stored)
    )


class Named:
    """
    A valid transcript with an id for each call that a provider takes.

    The provider's own id goes back to it, unless it repeats (L15) or has letters that others refuse.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        self.turns = repair(turns)
        self._taken: set[str] = set()

    def calls(self, message: Message) -> list[tuple[ToolCall, str]]:
        """The calls of the next message, each with its id."""
        return [(call, self._id(call)) for call in message.calls]

    def _id(self, call: ToolCall) -> str:
        for id in (call.provider_id, call.call_id):
            if id and _SAFE.fullmatch(id) and id not in self._taken:
                break
        else:
            number = len(self._taken)
            id = "call_" + sha256(f"{number}:{call.call_id}".encode("utf-8", "replace")).hexdigest()[:24]
        self._taken.add(id)
        return id


def grouped(named: Named) -> Iterable[tuple[Message, list[tuple[ToolCall, str]], list[ToolResult]]]:
    """Each message with its calls and their results, all in call order."""
    turns, at = named.turns, 0
    while at < len(turns):
        message = turns[at]
        assert isinstance(message, Message)
        calls = named.calls(message) if message.role == "assistant" else []
        results = [turn for turn in turns[at + 1 : at + 1 + len(calls)] if isinstance(turn, ToolResult)]
        yield message, calls, results
        at += 1 + len(calls)


def tool_name(name: str, longest: int = 64) -> str:
    """A tool's name with the letters that providers take; a model sometimes makes up others."""
    return _UNSAFE.sub("_", name)[:longest] or "unknown"


def arguments(call: ToolCall) -> str:
    """The arguments as JSON text, or as what the model wrote when that did not parse."""
    if call.args is None and call.raw_args is not None:
        return call.raw_args
    return dumps({} if call.args is None else call.args).decode()


def parsed(text: str | None) -> tuple[JSON, str | None]:
    """Arguments from text: the value, or None with the text if they do not parse."""
    if not text or not text.strip():
        return {}, None
    try:
        return loads(text.encode()), None
    except ValueError:
        return None, text


def shown(part: Part) -> str:
    """A part as text, with a mark for what a format can't carry."""
    match part:
        case Text():
            return part.text
        case Data():
            return dumps(part.value).decode()
        case Custom():
            return "" if is_private(part) else f"<{part.kind}> {dumps(part.value).decode()}"
        case Image():
            return f"<image> {_described(part.source, part.media_type)}"
        case File():
            return f"<file> {' '.join(filter(None, (part.name, _described(part.source, part.media_type))))}"
        case UnknownPart():
            return f"<{part.tag}> that this version can't read"
        case _:
            return ""


def _described(source: Source, media_type: str | None) -> str:
    match source:
        case Url():
            where = source.url
        case Inline():
            where = f"{len(source.data) * 3 // 4:,} bytes, not shown"
        case Stored():
            where = f"{source.size:,} bytes, not shown"
    return f"{media_type}, {where}" if media_type else where


def text_of(parts: Sequence[Part]) -> str:
    """All parts as one text."""
    return "\n".join(text for text in map(shown, parts) if text)


def inline(source: Source, media: Media) -> str | None:
    """The base64 of media that is here, or None."""
    match source:
        case Inline():
            return source.data
        case Stored() if source.hash in media:
            return Inline.of(media[source.hash]).data
        case _:
            return None


def image_url(part: Image, media: Media) -> str | None:
    """An address that shows the picture: somebody's, or a ``data:`` one; None if it is not here."""
    if isinstance(part.source, Url):
        return part.source.url
    data = inline(part.source, media)
    return None if data is None else f"data:{part.media_type or 'image/png'};base64,{data}"


def image_of(url: str) -> Image:
    """The picture behind an address."""
    if (found := _DATA_URL.fullmatch(url)) is not None:
        return Image(Inline(found[2]), found[1] or None)
    return Image(Url(url))


def file_of(data: str, filename: object) -> File:
    """The file in a ``data:`` address or plain base64."""
    name = filename if isinstance(filename, str) else None
    found = _DATA_URL.fullmatch(data)
    return File(Inline(data), name) if found is None else File(Inline(found[2]), name, found[1] or None)


def plain(item: object) -> Wire:
    """
    A message of an SDK, or the dict that it stands for, as a dict.

    Raises:
        InvalidInput: It is neither.
    """
    if isinstance(item, Mapping):
        return {key: _plain(value) for key, value in item.items()}
    if callable(dump := getattr(item, "model_dump", None)):
        dumped = dump(mode="json", exclude_none=True)
        if isinstance(dumped, dict):
            return dumped
    raise InvalidInput(f"a {type(item).__name__} is no message; give dicts or the SDK's own objects")


def _plain(value: object) -> Any:
    """SDK objects inside dicts too: people put a reply's blocks into a new message."""
    if isinstance(value, Mapping) or callable(getattr(value, "model_dump", None)):
        return plain(value)
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return value
    return [_plain(inner) for inner in value]


def utf8(wire: list[Wire]) -> list[Wire]:
    """The same, with U+FFFD for half characters, which no client can send."""
    try:
        json.dumps(wire, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return [_utf8(item) for item in wire]
    return wire


def _utf8(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_utf8(key): _utf8(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_utf8(inner) for inner in value]
    return value


class Reader:
    """Turns while they are read: mints ids of ours and finds the call that a result belongs to."""

    def __init__(self, ids: Callable[[], str]) -> None:
        self.turns: list[Turn] = []
        self._ids = ids
        self._calls: dict[str, str] = {}

    def message(self, role: Any, parts: Sequence[Part], **fields: Any) -> None:
        """Take a message; its calls get the message and the part as their id."""
        id = self._ids()
        named: list[Part] = []
        for index, part in enumerate(parts):
            if isinstance(part, ToolCall):
                part = ToolCall(
                    f"{id}/{index}",
                    part.name,
                    part.args,
                    part.provider_id,
                    part.raw_args,
                    signature=part.signature,
                )
                if part.provider_id is not None:
                    self._calls[part.provider_id] = part.call_id
            named.append(part)
        self.turns.append(Message(id, role, tuple(named), **fields))

    def result(self, provider_id: object, parts: Sequence[Part], *, failed: bool = False) -> None:
        """Take a result."""
        name = str(provider_id)
        self.turns.append(ToolResult(self._calls.get(name, name), "error" if failed else "ok", tuple(parts)))


def stop_of(word: object, words: Mapping[str, StopReason]) -> dict[str, Any]:
    """The fields of a message that say why it ended, from a provider's word for it."""
    if not isinstance(word, str):
        return {}
    stop = words.get(word)
    return {"stop": stop, "stop_detail": word, "partial": stop == "length"}
