"""
The careful way to write and read JSON, for what msgspec fails at or would change in silence.

It looks at every value, so that it can say what is wrong and where. The codec takes it only when the
fast way has failed.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, cast, get_args, get_origin

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.messages import JSON, KnownPart, Part, Source, UnknownPart

MAX_DEPTH: Final = 200
"""
How deep a value may nest.

Far below the interpreter's recursion limit, so that what one process writes another can read from
whatever depth of its own stack.
"""

_LONGEST_PATH = 200
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_AT = re.compile(r"^(?P<why>.*) - at `(?:key in )?\$?(?P<path>.*)`$", re.DOTALL)
_SPACES = " \t\n\r"
_scanner = json.JSONDecoder()
_TOO_DEEP = f"is nested too deeply; {MAX_DEPTH} levels are allowed"


def plain(value: object, *, typed: bool = False, room: int = 0) -> object:
    """
    Copy a value into what msgspec writes without a loss.

    JSON's own types and their subclasses pass, and tuples as arrays. ``typed`` allows the structs of
    this package where their fields expect them. ``room`` levels are left for what goes around it.

    Raises:
        InvalidPayload: Something in it is not JSON; ``path`` says where.
    """
    copy = _Copy(MAX_DEPTH - room)
    try:
        return copy.struct(value) if typed else copy.json(value)
    except InvalidPayload:
        raise
    except RecursionError:
        raise copy.refuse(_TOO_DEEP) from None
    except Exception as exc:
        # Proxies raise when they are touched, containers when another thread changes them.
        raise copy.refuse(f"can't be looked at: {exc!r}") from exc


class _Copy:
    """One walk through a value: ``path`` is where it is, ``above`` what it came through."""

    def __init__(self, levels: int) -> None:
        self.levels = levels
        self.path: list[str | int] = []
        self.above: list[object] = []

    def refuse(self, why: str) -> InvalidPayload:
        return InvalidPayload(show(self.path), why)

    def enter(self, value: object) -> None:
        if len(self.above) >= self.levels:
            loop = any(value is outer for outer in self.above)
            raise self.refuse("contains itself, and JSON is a tree" if loop else _TOO_DEEP)
        self.above.append(value)

    def json(self, value: object) -> object:
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return _string(value)
        if isinstance(value, int):
            if not is_writable(value):
                raise self.refuse("is an integer of more digits than Python reads; keep it as a hex string")
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self.refuse(f"is {value!r}, which is not JSON; use None or a string")
            return float(value)
        # Both loops are here and not in functions of their own: each level of nesting takes one frame.
        if isinstance(value, dict):
            self.enter(value)
            members: dict[str, object] = {}
            for key, inner in value.items():
                name = self.key(key, members)
                self.path.append(name)
                members[name] = self.json(inner)
                self.path.pop()
            self.above.pop()
            return _object(members)
        if isinstance(value, (list, tuple)):
            self.enter(value)
            items: list[object] = []
            for index, inner in enumerate(value):
                self.path.append(index)
                items.append(self.json(inner))
                self.path.pop()
            self.above.pop()
            return items
        raise self.refuse(
            f"is a {type_name(value)}, which is not JSON; convert it, or let degrade() make it text"
        )

    def key(self, key: object, members: dict[str, object]) -> str:
        if not isinstance(key, str):
            raise self.refuse(f"has a key that is a {type_name(key)}; keys in JSON are strings")
        if (name := joined(key)) in members:
            raise self.refuse(f"has two keys that are both {name!r} in JSON")
        return name

    def struct(self, value: object) -> object:
        if isinstance(value, UnknownPart):
            return self.verbatim(value.json.encode("utf-8", "surrogatepass"))
        if isinstance(value, msgspec.Raw):
            return self.verbatim(bytes(value))
        if isinstance(value, (list, tuple)):
            return self.structs(value)
        if not isinstance(value, msgspec.Struct):
            return self.json(value)
        self.enter(value)
        config = value.__struct_config__
        copy: dict[str, object] = {config.tag_field: config.tag} if config.tag_field else {}
        for name, is_json, default in _fields(type(value)):
            inner = getattr(value, name)
            if config.omit_defaults and type(inner) is type(default) and inner == default:
                continue
            self.path.append(name)
            copy[name] = self.json(inner) if is_json else self.struct(inner)
            self.path.pop()
        self.above.pop()
        return copy

    def structs(self, values: list[object] | tuple[object, ...]) -> list[object]:
        self.enter(values)
        copy = []
        for index, value in enumerate(values):
            self.path.append(index)
            copy.append(self.struct(value))
            self.path.pop()
        self.above.pop()
        return copy

    def verbatim(self, text: bytes) -> msgspec.Raw:
        try:
            value = parse(text)
        except InvalidPayload as exc:
            raise self.refuse(exc.why) from exc
        self.json(value)
        return msgspec.Raw(text.strip(_SPACES.encode()))


@functools.cache
def _fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, bool, object], ...]:
    return tuple(
        (
            field.name,
            field.type is Any,
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        )
        for field in msgspec.structs.fields(struct)
    )


def _string(value: str) -> object:
    value = joined(value)
    return value if _SURROGATE.search(value) is None else msgspec.Raw(_quoted(value))


def joined(value: str) -> str:
    """
    A string as JSON can say it: the two halves of a character, side by side, are the character.

    Streams that cut inside a character give such strings; in JSON they can't be told from it.
    """
    if value.isascii() or _SURROGATE.search(value) is None:
        return str.__str__(value)
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _quoted(value: str) -> bytes:
    text = json.dumps(value, ensure_ascii=False)
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def _object(copy: dict[str, object]) -> object:
    if all(_SURROGATE.search(key) is None for key in copy):
        return copy
    members = (_quoted(key) + b":" + msgspec.json.encode(value) for key, value in copy.items())
    return msgspec.Raw(b"{" + b",".join(members) + b"}")


def show(path: list[str | int]) -> str:
    """A path as people write it: ``$.parts[2].args.price``."""
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NAME.fullmatch(step):
            text += f".{step}"
        else:
            text += f"[{json.dumps(step)}]"
        if len(text) > _LONGEST_PATH:
            return f"{text[:_LONGEST_PATH]}…"
    return text


def is_writable(value: int) -> bool:
    """Whether Python turns an integer into digits; it refuses those of more than some thousand."""
    if value.bit_length() < 10_000:
        return True
    try:
        str(value)
    except ValueError:
        return False
    return True


def type_name(value: object) -> str:
    """The type of a value as an import would name it."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def parse(data: bytes) -> JSON:
    """
    Read JSON text with the standard library, which keeps lone surrogates.

    Raises:
        InvalidPayload: It is not JSON, or has a number or depth that can't be read.
    """
    return _parse(_decoded(data))


def read(kind: Any, data: bytes) -> Any:
    """
    Read JSON text as a struct, as msgspec does, but with lone surrogates and unknown parts.

    The text is cut into its members, so that what is kept verbatim stays byte for byte.

    Raises:
        InvalidPayload: It is not JSON, or not of that kind; ``path`` says where.
    """
    text = _decoded(data).strip(_SPACES)
    # Whatever is wrong with the text is found here; cutting it afterwards needs no checks.
    _parse(text)
    return _Reader().read(kind, text)


class _Reader:
    """One walk through JSON text along a type; ``path`` is where it is."""

    def __init__(self) -> None:
        self.path: list[str | int] = []

    def read(self, kind: Any, text: str) -> Any:
        if kind is msgspec.Raw:
            return msgspec.Raw(text.encode())
        if kind == KnownPart:
            return self.part(text)
        if get_origin(kind) is tuple and text.startswith("["):
            return tuple(
                self.inside(index, get_args(kind)[0], inner) for index, inner in enumerate(_items(text))
            )
        if _is_untagged_struct(kind) and text.startswith("{"):
            return self.struct(kind, _members(text))
        return self.convert(kind, _parse(text))

    def inside(self, step: str | int, kind: Any, text: str) -> Any:
        self.path.append(step)
        value = self.read(kind, text)
        self.path.pop()
        return value

    def struct(self, kind: Any, members: dict[str, str]) -> Any:
        values = {}
        for field in msgspec.structs.fields(kind):
            if field.name in members:
                values[field.name] = self.inside(field.name, field.type, members[field.name])
            elif field.required:
                raise InvalidPayload(show(self.path), f"lacks the field {field.name!r}")
        return kind(**values)

    def part(self, text: str) -> Part:
        value = _parse(text)
        if isinstance(value, dict) and isinstance(tag := value.get("type"), str) and not _is_known(value):
            return UnknownPart(tag, text)
        return cast(Part, self.convert(KnownPart, value))

    def convert(self, kind: Any, value: JSON) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as exc:
            found = _AT.match(str(exc))
            why, inner = (found["why"], found["path"]) if found else (str(exc), "")
            raise InvalidPayload(show(self.path) + inner, f"is not what belongs there: {why}") from exc


_TAGS = {struct.__struct_config__.tag for struct in get_args(KnownPart)}
_SOURCES = {struct.__struct_config__.tag for struct in get_args(Source)}


def _is_known(part: dict[str, JSON]) -> bool:
    if part["type"] not in _TAGS:
        return False
    source = part.get("source")
    return not isinstance(source, dict) or source.get("type") in _SOURCES


def _is_untagged_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag is None


def _members(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = _skip(text, 1)
    while text[at] != "}":
        key, at = _scanner.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _scanner.raw_decode(text, start)
        found[key] = text[start:end]
        at = _next(text, end)
    return found


def _items(text: str) -> Iterator[str]:
    at = _skip(text, 1)
    while text[at] != "]":
        _, end = _scanner.raw_decode(text, at)
        yield text[at:end]
        at = _next(text, end)


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACES:
        at += 1
    return at


def _next(text: str, end: int) -> int:
    at = _skip(text, end)
    return _skip(text, at + 1) if text[at] == "," else at


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise InvalidPayload("$", f"is not UTF-8 at byte {exc.start}") from exc


def _parse(text: str) -> JSON:
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise InvalidPayload("$", _TOO_DEEP) from None
    except ValueError as exc:
        raise InvalidPayload("$", f"is not JSON that can be read: {exc}") from exc


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} is out of range")
    return number
