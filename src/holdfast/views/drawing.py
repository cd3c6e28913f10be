"""Which rows one event gives, by itself."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from holdfast.errors import InvalidPayload
from holdfast.model.codec import loads
from holdfast.model.events import (
    Input,
    Item,
    NoticeRow,
    Payload,
    Redacted,
    Resolution,
    RunEnded,
    RunParked,
    StatePatch,
    Suspension,
    ToolResult,
    UnknownEvent,
)
from holdfast.model.messages import (
    Custom,
    Data,
    File,
    Image,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    UnknownPart,
)
from holdfast.model.records import CallStatus
from holdfast.views.content import (
    ROW_KINDS,
    CallContent,
    Content,
    DataContent,
    ErrorContent,
    FileContent,
    ImageContent,
    NotificationContent,
    ResultContent,
    Row,
    TextContent,
    ThinkingContent,
    TodosContent,
    row_content,
)
from holdfast.views.formats.common import is_private

__all__ = ["drawn"]

_VISIBLE = frozenset(("input", "message", "tool_result", "notice"))
_HOPED_FOR = frozenset(("end", "tool_calls"))
_WHY: dict[StopReason, str] = {
    "length": "The answer reached its token limit.",
    "refusal": "The answer was declined or filtered.",
    "cancelled": "The answer was stopped.",
    "error": "The model's provider reported an error.",
    "cut": "The connection to the model was lost.",
}


def drawn(seq: int, at: int, payload: Payload) -> list[Row]:
    """The rows of an event, before anything that other events say of them."""
    if isinstance(payload, Message):
        return _of_message(seq, at, payload)
    id = f"{seq}.0"
    if isinstance(payload, ToolResult):
        result = ResultContent(
            payload.call_id, payload.outcome, payload.parts, payload.failure, payload.artifact
        )
        return [Row(id, seq, at, "tool", result)]
    if isinstance(payload, Input):
        if payload.call_id is not None and payload.outcome is not None:
            answer = ResultContent(payload.call_id, payload.outcome, payload.parts)
            return [Row(id, seq, at, "tool", answer)]
        role: Literal["user", "system"] = "user" if payload.source == "person" else "system"
        return [
            Row(f"{seq}.{index}", seq, at, role, content, actor=payload.actor)
            for index, part in enumerate(payload.parts)
            if (content := _of_part(part)) is not None
        ]
    content = _of_rest(payload)
    if content is None:
        return []
    return [Row(id, seq, at, "system", content, actor=getattr(payload, "actor", None))]


def _of_message(seq: int, at: int, message: Message) -> list[Row]:
    # What a message delivers has its rows already, from the inputs.
    if message.role == "system" or message.inputs:
        return []
    rows = [
        Row(f"{seq}.{index}", seq, at, message.role, content, message.id)
        for index, part in enumerate(message.parts)
        if (content := _of_part(part)) is not None
    ]
    stop = message.stop or ("cut" if message.partial else None)
    if stop is not None and stop not in _HOPED_FOR:
        if not rows:
            why = NotificationContent(_WHY[stop], "warning", "stopped")
            rows = [Row(f"{seq}.0", seq, at, message.role, why, message.id)]
        rows[-1] = replace(rows[-1], stop=stop, stop_detail=message.stop_detail)
    return rows


def _of_part(part: Part) -> Content | None:
    # Most parts are text; a match asks each of its cases in turn.
    if isinstance(part, Text):
        return TextContent(part.text) if part.text else None
    if isinstance(part, ToolCall):
        args = part.raw_args if part.args is None else part.args
        status: CallStatus = "cancelled" if part.unfinished else "pending"
        return CallContent(part.call_id, part.name, args, status, part.executor)
    match part:
        case Thinking():
            hidden = not part.text and part.encrypted is not None
            return ThinkingContent(part.text, hidden) if part.text or hidden else None
        case Image():
            return ImageContent(part.source, part.media_type)
        case File():
            return FileContent(part.source, part.name, part.media_type)
        case Data():
            return DataContent(part.value, part.name)
        case Custom():
            return None if is_private(part) else DataContent(part.value, part.kind)
        case UnknownPart():
            return NotificationContent("A newer version wrote this.", "warning", part.tag)


def _of_rest(payload: Payload) -> Content | None:
    match payload:
        case NoticeRow():
            return _of_notice(payload)
        case Suspension():
            text = payload.question.text if payload.question is not None else payload.prompt
            value = {"call_id": payload.call_id, "step": payload.step, "kind": payload.kind}
            return NotificationContent(text or "", "info", "suspension", value)
        case Resolution():
            value = {"call_id": payload.call_id, "step": payload.step, "decision": payload.decision}
            if payload.answer is not None:
                value["answer"] = payload.answer
            return NotificationContent(payload.reason or "", "info", "resolution", value)
        case RunEnded(outcome="failed"):
            failure = payload.failure
            message = failure.message if failure is not None else payload.reason
            code = failure.code if failure is not None else None
            return ErrorContent(message or "The run failed.", code, payload.retryable)
        case RunEnded(reason=str(reason)) if reason:
            return NotificationContent(reason, "info", payload.outcome)
        case RunParked():
            return NotificationContent(payload.reason, "warning", "parked")
        case StatePatch(todos=tuple(todos)):
            return TodosContent(todos)
        case Item():
            return DataContent(loads(bytes(payload.value)), payload.kind or payload.source)
        case Redacted(type=type) if type in _VISIBLE:
            return NotificationContent("This was removed.", "info", "redacted")
        case UnknownEvent(type=type) if type in _VISIBLE:
            return ErrorContent("This can't be read here; it may come from a newer version.", "unreadable")
        case _:
            return None


def _of_notice(notice: NoticeRow) -> Content:
    """The shape that its kind names, if its value has it; a notification or an error otherwise."""
    if notice.kind in ROW_KINDS and isinstance(notice.value, dict):
        try:
            return row_content(notice.kind, notice.value)
        except InvalidPayload:
            pass
    match notice.kind:
        case "text":
            return TextContent(notice.text)
        case "error":
            return ErrorContent(notice.text)
        case _:
            return NotificationContent(notice.text, notice.level, notice.kind, notice.value)
