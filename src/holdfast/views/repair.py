"""Whatever happened to a transcript, a provider takes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from holdfast.model.events import Outcome, ToolResult
from holdfast.model.messages import Message, Part, Text, Thinking, ToolCall

__all__ = ["Turn", "repair"]

Turn: TypeAlias = Message | ToolResult
"""One turn of a transcript: what somebody said, or what a tool answered."""

_SILENT: dict[Outcome, str] = {
    "ok": "Done, without any output.",
    "error": "The tool failed.",
    "rejected": "This call was rejected and not made.",
    "cancelled": "This call was cancelled.",
    "expired": "Nobody answered in time, so this call was not made.",
    "unknown": (
        "The outcome of this call is unknown: no result was recorded. "
        "It may or may not have had its effect; find out before you repeat it."
    ),
    "detached": "This call goes on in the background; its result follows later.",
}


def repair(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """
    Make a transcript valid for every provider: the same one for the same turns, and unchanged if it was.

    Each call of an assistant's message gets exactly one result, directly after the message and in call
    order; of several the last one stands, for one that is missing "outcome unknown" is put in. Results of no
    call are left out, and so are unfinished calls, blank text, thinking that was cut off before it was
    signed or that nothing follows, and messages of which nothing is left.

    >>> repair([Message("m1", "assistant", (ToolCall("m1/0", "book"),))])[1].outcome
    'unknown'
    """
    return mended(turns, _unknown)


def mended(turns: Iterable[Turn], missing: Callable[[ToolCall], ToolResult]) -> tuple[Turn, ...]:
    """``repair``, with another word for results that are missing."""
    fixed: list[tuple[Message, _Answers | None]] = []
    waiting: dict[str, _Answers] = {}
    for turn in turns:
        if type(turn) is ToolResult:
            if (taker := waiting.get(turn.call_id)) is not None:
                taker.take(turn)
        elif type(turn) is Message and (sent := _sendable(turn)) is not None:
            message, calls = sent
            if calls:
                answers = _Answers(calls)
                fixed.append((message, answers))
                for call_id in answers.places:
                    waiting[call_id] = answers
            else:
                fixed.append((message, None))
    whole: list[Turn] = []
    for message, of_calls in fixed:
        whole.append(message)
        if of_calls is not None:
            for call, result in zip(of_calls.calls, of_calls.results, strict=True):
                whole.append(_readable(missing(call) if result is None else result))
    return tuple(whole)


class _Answers:
    """The results of one message's calls, in call order whatever order they come in."""

    __slots__ = ("calls", "places", "results")

    def __init__(self, calls: list[ToolCall]) -> None:
        self.calls = calls
        self.results: list[ToolResult | None] = [None] * len(calls)
        # A provider's id can repeat, even within one message (L15).
        self.places: dict[str, list[int]] = {}
        for place, call in enumerate(calls):
            self.places.setdefault(call.call_id, []).append(place)

    def take(self, result: ToolResult) -> None:
        for place in self.places[result.call_id]:
            if self.results[place] is None:
                break
        self.results[place] = result


def _unknown(call: ToolCall) -> ToolResult:
    return ToolResult(call.call_id, "unknown")


def _sendable(message: Message) -> tuple[Message, list[ToolCall]] | None:
    """A message with the parts that can be sent, and its calls."""
    parts, partial = message.parts, message.partial
    kept: list[Part] = []
    calls: list[ToolCall] = []
    of_model = message.role == "assistant"
    for part in parts:
        kind = type(part)
        if kind is Text:
            if _is_blank(part.text):  # type: ignore[union-attr]
                continue
        elif isinstance(part, ToolCall):
            if part.unfinished or not of_model:
                continue
            calls.append(part)
        elif isinstance(part, Thinking) and not (of_model and _is_whole(part, partial)):
            continue
        kept.append(part)
    while kept and type(kept[-1]) is Thinking:
        kept.pop()
    if not kept:
        return None
    return (message if len(kept) == len(parts) else replace(message, parts=tuple(kept))), calls


def _is_whole(thinking: Thinking, partial: bool) -> bool:
    """Cut off before it was signed, a provider does not take it back."""
    if thinking.signature or thinking.encrypted:
        return True
    return not partial and (thinking.provider_id is not None or not _is_blank(thinking.text))


def _is_content(part: Part) -> bool:
    if isinstance(part, Text):
        return not _is_blank(part.text)
    return not isinstance(part, (Thinking, ToolCall))


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _readable(result: ToolResult) -> ToolResult:
    """A result that has something to read, whatever the tool left out."""
    kept = [part for part in result.parts if _is_content(part)]
    if kept and len(kept) == len(result.parts):
        return result
    if not kept:
        said = result.failure.message if result.failure is not None else ""
        kept = [Text(_SILENT[result.outcome] if _is_blank(said) else said)]
    return replace(result, parts=tuple(kept))
