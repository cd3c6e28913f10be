"""What JSON can't keep, as text with a mark: lossy on purpose, and never a failure."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import msgspec

from holdfast.model.careful import MAX_DEPTH, is_writable, joined, type_name
from holdfast.model.messages import JSON

_LONGEST_TEXT = 10_000
_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")


def degraded(value: object, *, room: int = 0) -> JSON:
    """Copy a value; what is not JSON becomes text that begins with ``<its type>``."""
    return _degraded(value, (), MAX_DEPTH - room)


def _degraded(value: object, above: tuple[object, ...], levels: int) -> JSON:
    # The guard is around every value and not around all: a proxy that raises when it is touched must
    # not take what stands beside it along.
    try:
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return joined(value)
        if isinstance(value, int) and is_writable(value):
            return int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        members = _members(value)
        if members is None and not isinstance(value, (list, tuple, set, frozenset)):
            return _marked(value)
        if any(value is outer for outer in above):
            return f"<{type_name(value)}> that contains itself"
        # A set takes two levels, for its mark and its items.
        if levels < 2:
            return f"<{type_name(value)}> nested too deeply"
        above = (*above, value)
        if members is not None:
            return _degraded_members(value, members, above, levels - 1)
        if isinstance(value, (list, tuple)):
            return [_degraded(inner, above, levels - 1) for inner in value]
        assert isinstance(value, (set, frozenset))
        items = [_degraded(inner, above, levels - 2) for inner in value]
        return {"$type": type_name(value), "items": sorted(items, key=repr)}
    except Exception:
        return f"<{type_name(value)}> that can't be shown"


def _degraded_members(
    value: object, members: dict[Any, object], above: tuple[object, ...], levels: int
) -> JSON:
    copy: dict[str, JSON] = {} if isinstance(value, dict) else {"$type": type_name(value)}
    for key, inner in members.items():
        name = joined(key) if isinstance(key, str) else _marked(key)
        while name in copy:
            name += "'"
        copy[name] = _degraded(inner, above, levels)
    return copy


def _members(value: object) -> dict[Any, object] | None:
    if isinstance(value, dict):
        return value
    if isinstance(value, type):
        return None
    try:
        if isinstance(value, msgspec.Struct):
            return {name: getattr(value, name) for name in value.__struct_fields__}
        if dataclasses.is_dataclass(value):
            # A field that its class keeps out of repr() is often a secret.
            return {
                field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.repr
            }
        if callable(dump := getattr(value, "model_dump", None)) and isinstance(dumped := dump(), dict):
            return dumped
    except Exception:
        return None
    return None


def _marked(value: object) -> str:
    mark, kind = f"<{type_name(value)}>", type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return mark
    try:
        if isinstance(value, int) and not is_writable(value):
            text = hex(value)
        elif isinstance(value, (bytes, bytearray)):
            text = value.decode("utf-8", "backslashreplace")
        elif isinstance(name := getattr(value, "__qualname__", None), str):
            text = name
        else:
            text = _ADDRESS.sub("", str(value))
    except Exception:
        return f"{mark} that can't be shown"
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}… ({len(text):,} characters)"
    return f"{mark} {joined(text)}"
