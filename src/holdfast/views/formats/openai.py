"""
OpenAI's chat messages.

Left out on the way there: thinking, which this format can't take back. As text with a mark: media in what
an assistant or a tool said, files by address, custom parts. On the way here an image's ``detail`` is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.model.messages import (
    Custom,
    File,
    Image,
    Inline,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
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

__all__ = ["from_openai", "to_openai"]

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


def to_openai(turns: Iterable[Turn], *, media: Media | None = None) -> list[Wire]:
    """
    Turns as the ``messages`` of a chat completion. ``media`` has the bytes of stored media by hash.

    >>> to_openai([Message("m1", "user", (Text("Hi"),))])
    [{'role': 'user', 'content': 'Hi'}]
    """
    named = Named(turns)
    wire: list[Wire] = []
    for message, calls, results in grouped(named):
        if message.role == "assistant":
            wire += _assistant(message, calls)
        elif message.role == "system":
            wire.append({"role": "system", "content": text_of(message.parts)})
        elif content := _content(message.parts, media or {}):
            wire.append({"role": "user", "content": content})
        for (_, id), result in zip(calls, results, strict=True):
            wire.append({"role": "tool", "tool_call_id": id, "content": text_of(result.parts)})
    return utf8([message for message in wire if message.get("content") != "" or message["role"] == "tool"])


def _assistant(message: Message, calls: list[tuple[ToolCall, str]]) -> list[Wire]:
    parts = [part for part in message.parts if not isinstance(part, (Thinking, ToolCall))]
    wire: Wire = {"role": "assistant"}
    if message.stop == "refusal" and message.stop_detail == "refusal" and parts:
        # What the model said when it declined goes back as that, not as an answer.
        wire["refusal"] = shown(parts.pop())
    texts = [text for text in map(shown, parts) if text]
    if len(texts) == 1:
        wire["content"] = texts[0]
    elif texts:
        wire["content"] = [{"type": "text", "text": text} for text in texts]
    if calls:
        wire["tool_calls"] = [_call(call, id) for call, id in calls]
    return [wire] if len(wire) > 1 else []


def _call(call: ToolCall, id: str) -> Wire:
    function = {"name": tool_name(call.name), "arguments": arguments(call)}
    wire: Wire = {"id": id, "type": "function", "function": function}
    if call.signature is not None:
        wire["extra_content"] = {"google": {"thought_signature": call.signature}}
    return wire


def _content(parts: Sequence[Part], media: Media) -> str | list[Wire]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    content = [_part(part, media) for part in parts]
    return [part for part in content if part.get("text") != ""]


def _part(part: Part, media: Media) -> Wire:
    match part:
        case Image() if (url := image_url(part, media)) is not None:
            return {"type": "image_url", "image_url": {"url": url}}
        case File() if (data := inline(part.source, media)) is not None:
            if (format := _AUDIO.get(part.media_type or "")) is not None:
                return {"type": "input_audio", "input_audio": {"data": data, "format": format}}
            address = f"data:{part.media_type or 'application/octet-stream'};base64,{data}"
            return {"type": "file", "file": {"filename": part.name or "file", "file_data": address}}
        case Custom(kind="openai.part", value=dict(value)):
            return value
        case _:
            return {"type": "text", "text": shown(part)}


def from_openai(messages: Iterable[object], *, ids: Callable[[], str] = new_id) -> tuple[Turn, ...]:
    """
    Chat messages as turns: dicts, the SDK's objects, or whole ``ChatCompletion`` replies.

    ``ids`` makes the ids of the messages; the ids of calls are the message's and the part's place.

    >>> from_openai([{"role": "user", "content": "Hi"}])[0].text
    'Hi'

    Raises:
        InvalidInput: Something is no message.
    """
    reader = Reader(ids)
    for item in messages:
        message = plain(item)
        fields: dict[str, Any] = {}
        if isinstance(choices := message.get("choices"), list) and choices:
            fields = {"model": message.get("model"), "usage": _usage(message.get("usage"))}
            fields |= stop_of(choices[0].get("finish_reason"), _STOPS)
            message = choices[0]["message"]
        role = message.get("role")
        if role in ("tool", "function"):
            reader.result(message.get("tool_call_id"), _parts(message.get("content")))
        elif role == "assistant":
            _read_assistant(reader, message, fields)
        else:
            reader.message("user" if role == "user" else "system", _parts(message.get("content")))
    return tuple(reader.turns)


def _read_assistant(reader: Reader, message: Wire, fields: dict[str, Any]) -> None:
    parts: list[Part] = []
    if thought := message.get("reasoning_content") or message.get("reasoning"):
        parts.append(Thinking(str(thought)))
    parts += _parts(message.get("content"))
    content = message.get("content")
    refused = isinstance(content, list) and any(part.get("type") == "refusal" for part in content)
    if refusal := message.get("refusal"):
        parts.append(Text(refusal))
        refused = True
    if refused:
        fields |= {"stop": "refusal", "stop_detail": "refusal"}
    for call in message.get("tool_calls") or ():
        if call.get("type") == "custom":
            custom = call["custom"]
            parts.append(ToolCall("", custom["name"], {"input": custom["input"]}, call.get("id")))
            continue
        args, raw = parsed(call["function"].get("arguments"))
        signature = ((call.get("extra_content") or {}).get("google") or {}).get("thought_signature")
        name = call["function"]["name"]
        parts.append(ToolCall("", name, args, call.get("id"), raw, signature=signature))
    reader.message("assistant", parts, **fields)


def _parts(content: Any) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_read_part(part) for part in content]


def _read_part(part: Wire) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return image_of(url)
        case {"type": "file", "file": {"file_data": str(data), **more}}:
            return file_of(data, more.get("filename"))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(format)}}:
            return File(Inline(data), None, "audio/mpeg" if format == "mp3" else f"audio/{format}")
        case _:
            return Custom("openai.part", part)


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    of_input = usage.get("prompt_tokens_details") or {}
    of_output = usage.get("completion_tokens_details") or {}
    return Usage(
        usage.get("prompt_tokens") or 0,
        usage.get("completion_tokens") or 0,
        of_input.get("cached_tokens") or 0,
        reasoning_tokens=of_output.get("reasoning_tokens") or 0,
    )
