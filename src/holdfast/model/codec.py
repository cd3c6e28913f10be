"""
Payloads as UTF-8 JSON text, and back.

What ``encode`` and ``dumps`` accept comes back as it went in. They prove it instead of hoping for it:
msgspec writes NaN as null and a date as a string without a word, so what was written is read again and
compared, which costs less than looking at every value. Only what differs or fails takes the careful
way, which says what is wrong and where.

Three things come back equal but not the same, on purpose: tuples as lists, subclasses of str, int,
float, dict and list as those, and two halves of a character side by side as the character.

Versions: a payload of version 1 has no ``v``; every later one begins with it. See ``upcast``.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar, cast, get_args

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model import events
from holdfast.model.careful import MAX_DEPTH, parse, plain, read
from holdfast.model.degrade import degraded
from holdfast.model.derived import Derived, ModelCall, State, Summary
from holdfast.model.events import Entry, Payload, UnknownEvent
from holdfast.model.messages import JSON, Message
from holdfast.model.upcast import UPCASTS

_D = TypeVar("_D", State, Summary, ModelCall)

# What stands around a value in the log: the event, its parts, the part.
_ROOM = 8

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class _Shape(msgspec.Struct, frozen=True):
    """A name in the log or in records, and the struct or structs behind it."""

    name: str
    type: Any
    decoder: msgspec.json.Decoder[Any]
    version: int
    verbatim: bool
    starts: tuple[bytes, bytes]

    @classmethod
    def of(cls, name: str, type: Any) -> _Shape:
        version = UPCASTS.version(name)
        starts = (b'{"v":%d,' % version, b'{"v":%d}' % version)
        verbatim = type in (events.Item, events.Rewrite)
        return cls(name, type, msgspec.json.Decoder(type), version, verbatim, starts)


class _Head(msgspec.Struct):
    v: Any = 1


_head = msgspec.json.Decoder(_Head)

_EVENTS: dict[str, _Shape] = {
    name: _Shape.of(name, type)
    for name, type in (
        ("input", events.Input),
        ("message", Message),
        ("run", events.Run),
        ("cancel", events.Cancel),
        ("tool_started", events.ToolStarted),
        ("tool_result", events.ToolResult),
        ("suspension", events.Suspension),
        ("resolution", events.Resolution),
        ("compaction", events.Compaction),
        ("rewrite", events.Rewrite),
        ("retract", events.Retract),
        ("reset", events.Reset),
        ("redacted", events.Redacted),
        ("state", events.StatePatch),
        ("usage", events.UsageReport),
        ("notice", events.NoticeRow),
        ("item", events.Item),
    )
}
_RECORDS: dict[type, _Shape] = {
    type: _Shape.of(name, type)
    for name, type in (("record/state", State), ("record/summary", Summary), ("record/model_call", ModelCall))
}
_BY_STRUCT: dict[type, _Shape] = {
    struct: shape for shape in _EVENTS.values() for struct in (get_args(shape.type) or (shape.type,))
} | _RECORDS

EVENT_TYPES: frozenset[str] = frozenset(_EVENTS)
"""The event types that this version knows."""


def type_of(payload: Payload) -> str:
    """
    The type of the event that carries this payload.

    Raises:
        InvalidPayload: It is not the payload of an event.
    """
    if isinstance(payload, UnknownEvent):
        return payload.type
    shape = _BY_STRUCT.get(type(payload))
    if shape is None or shape.name not in _EVENTS:
        raise InvalidPayload(
            "$", f"is a {type(payload).__name__}, which no event carries; see holdfast.model.events"
        )
    return shape.name


def encode(payload: Payload | Derived) -> bytes:
    """
    A payload, or a derived record, as UTF-8 JSON text without a raw NUL.

    Raises:
        InvalidPayload: Something in it is not JSON or not what its field says; ``path`` says where.
    """
    if type(payload) is UnknownEvent:
        if not isinstance(loads(payload.data), dict):
            raise InvalidPayload("$", "must be a JSON object")
        return payload.data
    shape = _BY_STRUCT.get(type(payload))
    if shape is None:
        raise InvalidPayload("$", f"is a {type(payload).__name__}, not a payload; see holdfast.model.events")
    try:
        text = _encode(shape, payload)
    except Exception:
        text = _write(plain(payload, typed=True))
        read(shape.type, text)
    if shape.version > 1:
        return shape.starts[1] if text == b"{}" else shape.starts[0] + text[1:]
    return text


def decode(type: str, data: bytes) -> Payload:
    """
    The payload of an event, whatever version wrote it.

    A type or version that is not known here is an ``UnknownEvent``. Unknown parts of messages are kept,
    unknown fields are ignored; the log still has them.

    Raises:
        InvalidPayload: It is not JSON, or not what its type and version say.
    """
    shape = _EVENTS.get(type)
    if shape is None:
        return UnknownEvent(type, data)
    version = _version(shape, data)
    if version > shape.version:
        return UnknownEvent(type, data)
    return cast(Payload, _decode(shape, version, data))


def decode_record(type: type[_D], data: bytes) -> _D:
    """
    A derived record that ``encode`` wrote.

    Raises:
        InvalidPayload: It is not one of this type, or a newer version wrote it.
    """
    shape = _RECORDS[type]
    version = _version(shape, data)
    if version > shape.version:
        raise InvalidPayload(
            "$.v",
            f"is {version} and this version of holdfast reads up to {shape.version}; upgrade it, or rebuild",
        )
    return cast(_D, _decode(shape, version, data))


def entry(payload: Payload) -> Entry:
    """A payload as a ``Rewrite`` carries it; ``decode(entry.type, bytes(entry.data))`` gives it back."""
    return Entry(type_of(payload), msgspec.Raw(encode(payload)))


def dumps(value: object) -> bytes:
    """
    Any JSON value as UTF-8 text without a raw NUL.

    Raises:
        InvalidPayload: Something in it is not JSON; ``path`` says where.
    """
    return _dumps(value, 0)


def loads(data: bytes) -> JSON:
    """
    The value of JSON text.

    Raises:
        InvalidPayload: It is not JSON.
    """
    try:
        return _decoder.decode(data)
    except Exception:
        return parse(data)


def degrade(value: object) -> JSON:
    """
    The value itself if it is JSON, otherwise a copy where what is not became text with a mark.

    ``datetime(2026, 7, 1)`` is ``"<datetime.datetime> 2026-07-01 00:00:00"``. Objects with named fields
    (dataclasses, structs, pydantic's models) and sets keep their structure and get a ``$type``. It never
    fails, and what it gives fits into any part.
    """
    try:
        _dumps(value, _ROOM)
    except InvalidPayload:
        return degraded(value, room=_ROOM)
    return value


def args_hash(args: JSON) -> str:
    """
    What binds an approval to the arguments that were shown: the SHA-256 of their JSON text.

    Raises:
        InvalidPayload: They are not JSON.
    """
    return sha256(dumps(args)).hexdigest()


def _encode(shape: _Shape, payload: object) -> bytes:
    back = shape.decoder.decode(_encoder.encode(payload))
    if back != payload:
        raise ValueError
    # Not what was written first: msgspec leaves a default out by identity, and only what it read itself
    # has the same bytes whenever it is written. A commit that is repeated must not differ from the first.
    text = _encoder.encode(back)
    if shape.verbatim:
        # msgspec does not look into what it carries verbatim, and stores take only UTF-8.
        text.decode()
    if not _is_shallow(text):
        raise ValueError
    return text


def _dumps(value: object, room: int) -> bytes:
    try:
        text = _encoder.encode(value)
        if _decoder.decode(text) == value and _is_shallow(text, room):
            return text
    except Exception:
        pass
    return _write(plain(value, room=room))


def _write(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except RecursionError:
        raise InvalidPayload("$", f"is nested too deeply; {MAX_DEPTH} levels are allowed") from None


def _is_shallow(text: bytes, room: int = 0) -> bool:
    levels = MAX_DEPTH - room
    # Nesting can't be deeper than there are brackets; only the few texts that have more are looked into.
    if text.count(b"[") + text.count(b"{") <= levels:
        return True
    level: list[Any] = [_decoder.decode(text)]
    for _ in range(levels):
        level = [
            inner
            for value in level
            for inner in (value.values() if type(value) is dict else value)
            if type(inner) in (dict, list)
        ]
        if not level:
            return True
    return False


def _version(shape: _Shape, data: bytes) -> int:
    if data.startswith(shape.starts):
        return shape.version
    if b'"v"' not in data:
        return 1
    try:
        version = _head.decode(data).v
    except Exception:
        value = parse(data)
        version = value.get("v", 1) if isinstance(value, dict) else 1
    if type(version) is not int or version < 1:
        raise InvalidPayload("$.v", "must be a version: a whole number from 1 up")
    return version


def _decode(shape: _Shape, version: int, data: bytes) -> object:
    if version < shape.version:
        data = _upcast(shape, version, data)
    try:
        return shape.decoder.decode(data)
    except Exception:
        return read(shape.type, data)


def _upcast(shape: _Shape, version: int, data: bytes) -> bytes:
    value = loads(data)
    if not isinstance(value, dict):
        raise InvalidPayload("$", "must be a JSON object")
    try:
        return dumps(UPCASTS.apply(shape.name, version, value))
    except InvalidPayload:
        raise
    except (TypeError, KeyError, ValueError, AttributeError) as exc:
        raise InvalidPayload("$", f"is not a {shape.name} of version {version}: {exc!r}") from exc
