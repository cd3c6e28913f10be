"""
LangChain's messages, in the form of its ``messages_to_dict`` and ``messages_from_dict``.

They are plain dicts, so nothing of LangChain is needed here. Media in what a tool said stays, since these
messages can carry it; custom parts become text with a mark, and blocks we have no part for are kept verbatim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.model.messages import (
    Custom,
    File,
    Image,
    Inline,
    Part,
    Source,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Url,
    Usage,
)
from holdfast.views.formats.common import (
    Media,
    Named,
    Reader,
    Wire,
    file_of,
    grouped,
    image_of,
    inline,
    new_id,
    plain,
    shown,
    stop_of,
    tool_name,
    utf8,
)
from holdfast.views.repair import Turn

__all__ = ["from_langchain", "to_langchain"]

_ROLES = {"system": "system", "user": "human", "assistant": "ai"}
_FINE = frozenset(("ok", "detached"))
_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}


def to_langchain(turns: Iterable[Turn], *, media: Media | None = None) -> list[Wire]:
    """
    Turns as dicts that ``langchain_core.messages.messages_from_dict`` takes.

    >>> from holdfast.model import Message
    >>> to_langchain([Message("m1", "user", (Text("Hi"),))])
    [{'type': 'human', 'data': {'type': 'human', 'content': 'Hi', 'id': 'm1'}}]
    """
    here = media or {}
    wire: list[Wire] = []
    for message, calls, results in grouped(Named(turns)):
        data: Wire = {
            "type": _ROLES[message.role],
            "content": _content(message.parts, here),
            "id": message.id,
        }
        if message.role == "assistant":
            data["tool_calls"] = [
                {"type": "tool_call", "id": id, "name": tool_name(call.name), "args": _args(call)}
                for call, id in calls
                if call.raw_args is None
            ]
            data["invalid_tool_calls"] = [
                {
                    "type": "invalid_tool_call",
                    "id": id,
                    "name": tool_name(call.name),
                    "args": call.raw_args,
                    "error": None,
                }
                for call, id in calls
                if call.raw_args is not None
            ]
        if data["content"] or calls:
            wire.append(data)
        for (call, id), result in zip(calls, results, strict=True):
            status = "success" if result.outcome in _FINE else "error"
            content = _content(result.parts, here)
            wire.append(
                {
                    "type": "tool",
                    "content": content,
                    "tool_call_id": id,
                    "name": tool_name(call.name),
                    "status": status,
                }
            )
    return utf8([{"type": data["type"], "data": data} for data in wire])


def _args(call: ToolCall) -> Wire:
    return call.args if isinstance(call.args, dict) else {"arguments": call.args}


def _content(parts: Sequence[Part], media: Media) -> str | list[Wire]:
    said = [part for part in parts if not isinstance(part, ToolCall)]
    if all(isinstance(part, Text) for part in said) and len(said) < 2:
        return "".join(map(shown, said))
    return [block for block in (_block(part, media) for part in said) if block.get("text") != ""]


def _block(part: Part, media: Media) -> Wire:
    match part:
        case Thinking(signature=str(signature)):
            return {"type": "thinking", "thinking": part.text, "signature": signature}
        case Thinking(encrypted=str(data)):
            return {"type": "redacted_thinking", "data": data}
        case Thinking():
            return {"type": "reasoning", "reasoning": part.text}
        case Image() if (where := _where(part.source, media)) is not None:
            return {"type": "image", **where} | ({"mime_type": part.media_type} if part.media_type else {})
        case File() if (where := _where(part.source, media)) is not None:
            block: Wire = {"type": "file", **where}
            if part.media_type:
                block["mime_type"] = part.media_type
            return block | ({"extras": {"filename": part.name}} if part.name else {})
        case Custom(kind="langchain.block", value=dict(value)):
            return value
        case _:
            return {"type": "text", "text": shown(part)}


def _where(source: Source, media: Media) -> Wire | None:
    if isinstance(source, Url):
        return {"url": source.url}
    data = inline(source, media)
    return None if data is None else {"base64": data}


def from_langchain(messages: Iterable[object], *, ids: Callable[[], str] = new_id) -> tuple[Turn, ...]:
    """
    Messages as turns: LangChain's objects, or what ``messages_to_dict`` gives.

    >>> from_langchain([{"type": "human", "data": {"content": "Hi"}}])[0].text
    'Hi'

    Raises:
        InvalidInput: Something is no message.
    """
    reader = Reader(ids)
    for item in messages:
        message = plain(item)
        kind, data = message.get("type"), message.get("data", message)
        parts = _parts(data.get("content"))
        match kind:
            case "tool":
                reader.result(data.get("tool_call_id"), parts, failed=data.get("status") == "error")
            case "ai" | "AIMessageChunk":
                reader.message("assistant", [*parts, *_calls(data)], **_fields(data))
            case "system":
                reader.message("system", parts)
            case _:
                reader.message("user", parts)
    return tuple(reader.turns)


def _calls(data: Wire) -> list[Part]:
    calls: list[Part] = [
        ToolCall("", call["name"], call["args"], call.get("id")) for call in data.get("tool_calls") or ()
    ]
    for call in data.get("invalid_tool_calls") or ():
        calls.append(ToolCall("", call.get("name") or "", None, call.get("id"), call.get("args") or ""))
    return calls


def _fields(data: Wire) -> dict[str, Any]:
    told = data.get("response_metadata") or {}
    fields = stop_of(told.get("finish_reason") or told.get("stop_reason"), _STOPS)
    fields["model"] = told.get("model_name") or told.get("model")
    if isinstance(used := data.get("usage_metadata"), dict):
        of_input = used.get("input_token_details") or {}
        fields["usage"] = Usage(
            used.get("input_tokens") or 0,
            used.get("output_tokens") or 0,
            of_input.get("cache_read") or 0,
            of_input.get("cache_creation") or 0,
            (used.get("output_token_details") or {}).get("reasoning") or 0,
        )
    return fields


def _parts(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    # A provider's own form of the calls stands in the content too; they are read from tool_calls.
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content or ()]
    return [_read_block(block) for block in blocks if block.get("type") not in ("tool_use", "tool_call")]


def _read_block(block: Wire) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, block.get("signature"))
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking(encrypted=data)
        case {"type": "reasoning", "reasoning": str(text)}:
            return Thinking(text, (block.get("extras") or {}).get("signature"))
        case {"type": "image_url", "image_url": {"url": str(url)}} | {
            "type": "image_url",
            "image_url": str(url),
        }:
            return image_of(url)
        case {"type": "image", "url": str(url)}:
            return Image(Url(url), block.get("mime_type"))
        case {"type": "image", "base64": str(data)}:
            return Image(Inline(data), block.get("mime_type"))
        case {"type": "file", "url": str(url)}:
            return File(Url(url), _name(block), block.get("mime_type"))
        case {"type": "file", "base64": str(data)}:
            return File(Inline(data), _name(block), block.get("mime_type"))
        case {"type": "file", "file": {"file_data": str(data), **more}}:
            return file_of(data, more.get("filename"))
        case _:
            return Custom("langchain.block", block)


def _name(block: Wire) -> str | None:
    name = (block.get("extras") or {}).get("filename") or block.get("filename")
    return name if isinstance(name, str) else None
