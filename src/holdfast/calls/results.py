"""What a tool answered, as the model reads it."""

from __future__ import annotations

from typing import Any, cast, get_args

from holdfast.model import (
    JSON,
    Data,
    Failure,
    KnownPart,
    Outcome,
    Part,
    Text,
    ToolResult,
    UnknownPart,
    degrade,
)

_PARTS = (*get_args(KnownPart), UnknownPart)


def result_of(
    call_id: str,
    outcome: Outcome,
    value: object,
    artifact: JSON = None,
    failure: Failure | None = None,
) -> ToolResult:
    """What a tool answered, as parts; what is no JSON becomes text, and the result says so (L33)."""
    parts: tuple[Part, ...]
    kept = value
    if value is None:
        parts = ()
    elif isinstance(value, str):
        parts = (Text(value),)
    elif isinstance(value, _PARTS):
        parts = (cast(Any, value),)
    elif isinstance(value, (list, tuple)) and value and all(isinstance(part, _PARTS) for part in value):
        parts = tuple(value)
    else:
        kept = degrade(value)
        parts = (Data(kept),)
    shown = degrade(artifact)
    is_degraded = kept is not value or shown is not artifact
    return ToolResult(call_id, outcome, parts, failure, shown, is_degraded)
