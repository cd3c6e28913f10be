"""
The items of OpenAI's Responses API.

An assistant's message becomes several items: its reasoning, its words, its calls. What we have no part for
(a web search, a file by id) is kept verbatim and goes back to this API only. Reasoning goes back if it has
the provider's id; other thinking is left out. A refusal goes back as one if its item has an id. Media in what an assistant said becomes text with a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.model.messages import (
    Custom,
    File,
    Image,
    Message,
    Part,
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
    arguments,
    file_of,
    grouped,
    image_of,
    image_url,
    inline,
    new_id,
    parsed,
    plain,
    shown,
    stop_of,
    text_of,
    tool_name,
    utf8,
)
from holdfast.views.repair import Turn

__all__ = ["from_responses", "to_responses"]

_STOPS: dict[str, StopReason] = {
    "completed": "end",
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "cancelled": "cancelled",
    "failed": "error",
}


def to_responses(turns: Iterable[Turn], *, media: Media | None = None) -> list[Wire]:
    """
    Turns as the ``input`` of a response. ``media`` has the bytes of stored media by hash.

    >>> to_responses([Message("m1", "user", (Text("Hi"),))])
    [{'type': 'message', 'role': 'user', 'content': [{'type': 'input_text', 'text': 'Hi'}]}]
    """
    named = Named(turns)
    wire: list[Wire] = []
    for message, calls, results in grouped(named):
        if message.role == "assistant":
            wire += _assistant(message, dict(enumerate(id for _, id in calls)))
        elif content := _content(message.parts, media or {}):
            wire.append({"type": "message", "role": message.role, "content": content})
        for (_, id), result in zip(calls, results, strict=True):
            wire.append(
                {"type": "function_call_output", "call_id": id, "output": _output(result.parts, media or {})}
            )
    return utf8(wire)


def _assistant(message: Message, ids: dict[int, str]) -> list[Wire]:
    items: list[Wire] = []
    envelope: Wire = {}
    open_item: Wire | None = None
    calls = 0
    last_text = max((at for at, part in enumerate(message.parts) if isinstance(part, Text)), default=-1)
    refused = message.stop == "refusal" and message.stop_detail == "refusal"
    for at, part in enumerate(message.parts):
        match part:
            case Custom(kind="responses.message", value=dict(value)):
                envelope, open_item = value, None
                continue
            case Custom(kind="responses.item", value=dict(value)):
                items.append(value)
            case ToolCall():
                name, text = tool_name(part.name), arguments(part)
                items.append(
                    {"type": "function_call", "call_id": ids[calls], "name": name, "arguments": text}
                )
                calls += 1
            case Thinking():
                if part.provider_id is not None:
                    items.append(_reasoning(part))
            case _ if text := shown(part):
                if "id" not in envelope:
                    items.append({"type": "message", "role": "assistant", "content": text})
                    continue
                if open_item is None:
                    open_item = {"type": "message", "role": "assistant", **envelope, "content": []}
                    items.append(open_item)
                if refused and at == last_text:
                    open_item["content"].append({"type": "refusal", "refusal": text})
                else:
                    open_item["content"].append({"type": "output_text", "text": text, "annotations": []})
                continue
            case _:
                continue
        envelope, open_item = {}, None
    # Reasoning that nothing follows is refused.
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _reasoning(part: Thinking) -> Wire:
    summary = [{"type": "summary_text", "text": text} for text in part.text.split("\n\n") if text]
    wire: Wire = {"type": "reasoning", "id": part.provider_id, "summary": summary}
    if part.encrypted is not None:
        wire["encrypted_content"] = part.encrypted
    return wire


def _content(parts: Sequence[Part], media: Media) -> list[Wire]:
    return [item for item in (_part(part, media) for part in parts) if item.get("text") != ""]


def _output(parts: Sequence[Part], media: Media) -> str | list[Wire]:
    if any(isinstance(part, (Image, File)) for part in parts):
        return _content(parts, media)
    return text_of(parts)


def _part(part: Part, media: Media) -> Wire:
    match part:
        case Image() if (url := image_url(part, media)) is not None:
            return {"type": "input_image", "detail": "auto", "image_url": url}
        case File(source=Url(url=url)):
            return {"type": "input_file", "file_url": url} | ({"filename": part.name} if part.name else {})
        case File() if (data := inline(part.source, media)) is not None:
            address = f"data:{part.media_type or 'application/octet-stream'};base64,{data}"
            return {"type": "input_file", "filename": part.name or "file", "file_data": address}
        case Custom(kind="responses.part", value=dict(value)):
            return value
        case _:
            return {"type": "input_text", "text": shown(part)}


def from_responses(items: Iterable[object], *, ids: Callable[[], str] = new_id) -> tuple[Turn, ...]:
    """
    Items as turns: dicts, the SDK's objects, or whole ``Response`` replies.

    Items that an assistant made one after the other are one message.

    >>> from_responses([{"role": "user", "content": "Hi"}])[0].text
    'Hi'

    Raises:
        InvalidInput: Something is no item.
    """
    reader = Reader(ids)
    made = _Made(reader)
    for given in items:
        item = plain(given)
        if isinstance(output := item.get("output"), list) and item.get("object") == "response":
            made.end()
            for inner in output:
                made.take(inner)
            details = item.get("incomplete_details") or {}
            ended = stop_of(details.get("reason") or item.get("status"), _STOPS)
            made.fields = (
                ended | {"model": item.get("model"), "usage": _usage(item.get("usage"))} | made.fields
            )
            made.end()
            continue
        match item:
            case {"type": "function_call_output"}:
                made.end()
                output = item.get("output")
                parts = [Text(output)] if isinstance(output, str) else [_read_part(p) for p in output or ()]
                reader.result(item.get("call_id"), parts)
            case {"role": "user" | "system" | "developer"}:
                made.end()
                content = item.get("content")
                parts = (
                    [Text(content)] if isinstance(content, str) else [_read_part(p) for p in content or ()]
                )
                reader.message("user" if item["role"] == "user" else "system", parts)
            case _:
                made.take(item)
    made.end()
    return tuple(reader.turns)


class _Made:
    """The items of one assistant's message while they are collected."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._parts: list[Part] = []
        self.fields: dict[str, Any] = {}

    def end(self) -> None:
        if self._parts:
            self._reader.message("assistant", self._parts, **self.fields)
        self._parts, self.fields = [], {}

    def take(self, item: Wire) -> None:
        match item:
            case {"type": "reasoning", "id": str(id)} if not item.get("content"):
                text = "\n\n".join(part["text"] for part in item.get("summary") or ())
                self._parts.append(Thinking(text, None, item.get("encrypted_content"), id))
            case {"type": "function_call", "name": str(name)}:
                args, raw = parsed(item.get("arguments"))
                self._parts.append(ToolCall("", name, args, item.get("call_id"), raw))
            case {"role": "assistant"}:
                self._take_message(item)
            case _:
                self._parts.append(Custom("responses.item", item))

    def _take_message(self, item: Wire) -> None:
        envelope = {key: value for key, value in item.items() if key not in ("type", "role", "content")}
        if envelope:
            self._parts.append(Custom("responses.message", envelope))
        content = item.get("content")
        for part in [{"type": "output_text", "text": content}] if isinstance(content, str) else content or ():
            match part:
                case {"type": "refusal", "refusal": str(text)}:
                    self._parts.append(Text(text))
                    self.fields |= {"stop": "refusal", "stop_detail": "refusal"}
                case _:
                    self._parts.append(_read_part(part))


def _read_part(part: Wire) -> Part:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return Text(text)
        case {"type": "input_image", "image_url": str(url)}:
            return image_of(url)
        case {"type": "input_file", "file_data": str(data)}:
            return file_of(data, part.get("filename"))
        case {"type": "input_file", "file_url": str(url)}:
            return File(Url(url), part.get("filename"))
        case _:
            return Custom("responses.part", part)


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        usage.get("input_tokens") or 0,
        usage.get("output_tokens") or 0,
        (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0,
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
