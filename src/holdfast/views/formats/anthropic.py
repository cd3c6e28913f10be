"""
Anthropic's messages, with the system prompt beside them.

Thinking goes back if it is signed or redacted; other thinking is left out. What we have no part for (a search
that the provider made, a file by id) is kept verbatim and goes back to this API only. As text with a mark:
media in what an assistant said, files that are neither PDF nor text, custom parts. On the way here
``cache_control`` and citations are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.model.events import ToolResult
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
    Url,
    Usage,
)
from holdfast.views.formats.common import (
    Media,
    Named,
    Reader,
    Wire,
    grouped,
    inline,
    new_id,
    plain,
    shown,
    stop_of,
    text_of,
    tool_name,
    utf8,
)
from holdfast.views.repair import Turn

__all__ = ["from_anthropic", "to_anthropic"]

_OPENING = "(The conversation begins.)"
_PICTURES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
_FINE = frozenset(("ok", "detached"))
_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def to_anthropic(turns: Iterable[Turn], *, media: Media | None = None) -> tuple[str, list[Wire]]:
    """
    Turns as ``system`` (empty if there is none) and ``messages``. ``media`` has stored media by hash.

    A conversation that an assistant opens gets a user's message put before it, as this API wants one.

    >>> to_anthropic([Message("m1", "system", (Text("Be kind."),)), Message("m2", "user", (Text("Hi"),))])
    ('Be kind.', [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi'}]}])
    """
    named, here = Named(turns), media or {}
    system: list[str] = []
    wire: list[Wire] = []
    for message, calls, results in grouped(named):
        if message.role == "system":
            system.append(text_of(message.parts))
            continue
        if message.role == "assistant":
            content = _assistant(message, [id for _, id in calls])
        else:
            content = _content(message.parts, here)
        if content:
            wire.append({"role": message.role, "content": content})
        if results:
            answers = [_result(id, result, here) for (_, id), result in zip(calls, results, strict=True)]
            wire.append({"role": "user", "content": answers})
    if wire and wire[0]["role"] == "assistant":
        wire.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    if wire and wire[-1]["role"] == "assistant" and "text" in (last := wire[-1]["content"][-1]):
        # It would be continued, and is refused if it ends with a space.
        last["text"] = last["text"].rstrip()
    return "\n\n".join(filter(None, (item["text"] for item in utf8([{"text": t} for t in system])))), utf8(
        wire
    )


def _assistant(message: Message, ids: list[str]) -> list[Wire]:
    blocks: list[Wire] = []
    names = iter(ids)
    for part in message.parts:
        match part:
            case ToolCall():
                args = part.args
                if not isinstance(args, dict):
                    args = {"arguments": part.raw_args if args is None else args}
                name = tool_name(part.name, 128)
                blocks.append({"type": "tool_use", "id": next(names), "name": name, "input": args})
            case Thinking(signature=str(signature)):
                blocks.append({"type": "thinking", "thinking": part.text, "signature": signature})
            case Thinking(encrypted=str(data)) if part.provider_id is None:
                blocks.append({"type": "redacted_thinking", "data": data})
            case Thinking():
                pass
            case Custom(kind="anthropic.block", value=dict(value)):
                blocks.append(value)
            case _ if text := shown(part):
                blocks.append({"type": "text", "text": text})
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    return blocks


def _content(parts: Sequence[Part], media: Media) -> list[Wire]:
    return [block for block in (_block(part, media) for part in parts) if block.get("text") != ""]


def _block(part: Part, media: Media) -> Wire:
    match part:
        case Image(source=Url(url=url)):
            return {"type": "image", "source": {"type": "url", "url": url}}
        case Image() if (data := inline(part.source, media)) is not None:
            kind = part.media_type if part.media_type in _PICTURES else "image/png"
            return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
        case File() if (source := _document(part, media)) is not None:
            return {"type": "document", "source": source} | ({"title": part.name} if part.name else {})
        case Custom(kind="anthropic.block", value=dict(value)):
            return value
        case _:
            return {"type": "text", "text": shown(part)}


def _document(part: File, media: Media) -> Wire | None:
    if isinstance(part.source, Url):
        fits = part.media_type in (None, "application/pdf")
        return {"type": "url", "url": part.source.url} if fits else None
    data = inline(part.source, media)
    if data is None:
        return None
    if part.media_type == "application/pdf":
        return {"type": "base64", "media_type": "application/pdf", "data": data}
    if (part.media_type or "").startswith("text/"):
        text = Inline(data).content().decode("utf-8", "replace")
        return {"type": "text", "media_type": "text/plain", "data": text}
    return None


def _result(id: str, result: ToolResult, media: Media) -> Wire:
    wire: Wire = {"type": "tool_result", "tool_use_id": id, "content": _content(result.parts, media)}
    return wire if result.outcome in _FINE else wire | {"is_error": True}


def from_anthropic(
    messages: Iterable[object], system: Any = None, *, ids: Callable[[], str] = new_id
) -> tuple[Turn, ...]:
    """
    Messages as turns: dicts or the SDK's objects, a reply among them.

    >>> [turn.text for turn in from_anthropic([{"role": "user", "content": "Hi"}], "Be kind.")]
    ['Be kind.', 'Hi']

    Raises:
        InvalidInput: Something is no message.
    """
    reader = Reader(ids)
    if system:
        reader.message("system", _parts(system))
    for index, item in enumerate(messages):
        message = plain(item)
        blocks = message.get("content") or []
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message.get("role") == "assistant":
            fields = stop_of(message.get("stop_reason"), _STOPS)
            fields |= {"model": message.get("model"), "usage": _usage(message.get("usage"))}
            reader.message("assistant", _parts(blocks), **fields)
            continue
        said = []
        for block in blocks:
            if block.get("type") == "tool_result":
                failed = bool(block.get("is_error"))
                reader.result(block.get("tool_use_id"), _parts(block.get("content")), failed=failed)
            else:
                said.append(block)
        opening = index == 0 and [block.get("text") for block in said] == [_OPENING]
        if said and not opening:
            reader.message("user" if message.get("role") == "user" else "system", _parts(said))
    return tuple(reader.turns)


def _parts(content: Any) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    return [_read_block(plain(block)) for block in content]


def _read_block(block: Wire) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, block.get("signature"))
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking(encrypted=data)
        case {"type": "tool_use", "name": str(name)}:
            return ToolCall("", name, block.get("input") or {}, block.get("id"))
        case {"type": "image", "source": {"type": "base64", "data": str(data), "media_type": str(kind)}}:
            return Image(Inline(data), kind)
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return Image(Url(url))
        case {"type": "document", "source": {"type": "base64", "data": str(data), "media_type": str(kind)}}:
            return File(Inline(data), block.get("title"), kind)
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return File(Inline.of(text.encode("utf-8", "replace")), block.get("title"), "text/plain")
        case {"type": "document", "source": {"type": "url", "url": str(url)}}:
            return File(Url(url), block.get("title"))
        case _:
            return Custom("anthropic.block", block)


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
    # This API counts cached tokens beside the input, we count them as a part of it.
    fresh = usage.get("input_tokens") or 0
    return Usage(fresh + read + written, usage.get("output_tokens") or 0, read, written)
