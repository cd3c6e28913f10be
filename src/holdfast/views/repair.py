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
    fixed: list[Turn | _Answers] = []
    waiting: dict[str, _Answers] = {}
    for turn in turns:
        if type(turn) is ToolResult:
            if (answers := waiting.get(turn.call_id)) is not None:
                answers.take(turn)
        elif type(turn) is Message and (message := _sendable(turn)) is not None:
            fixed.append(message)
            if message.role == "assistant" and (calls := message.calls):
                answers = _Answers(calls)
                fixed.append(answers)
                waiting.update(dict.fromkeys(answers.places, answers))
    whole: list[Turn] = []
    for item in fixed:
        if type(item) is _Answers:
            whole += (
                _readable(missing(call) if result is None else result)
                for call, result in zip(item.calls, item.results, strict=True)
            )
        else:
            assert not isinstance(item, _Answers)
            whole.append(item)
    return tuple(whole)


class _Answers:
    """The results of one message's calls, in call order whatever order they come in."""

    __slots__ = ("calls", "places", "results")

    def __init__(self, calls: tuple[ToolCall, ...]) -> None:
        self.calls = calls
        self.results: list[ToolResult | None] = [None] * len(calls)
        # A provider's id can repeat, even within one message (L15).
        self.places: dict[str, list[int]] = {}
        for place, call in enumerate(calls):
            self.places.setdefault(call.call_id, []).append(place)

    def take(self, result: ToolResult) -> None:
        places = self.places[result.call_id]
        place = next((place for place in places if self.results[place] is None), places[-1])
        self.results[place] = result


def _unknown(call: ToolCall) -> ToolResult:
    return ToolResult(call.call_id, "unknown")


def _sendable(message: Message) -> Message | None:
    parts = message.parts
    if message.role == "assistant":
        kept = [part for part in parts if _is_sendable(part, message.partial)]
        while kept and type(kept[-1]) is Thinking:
            kept.pop()
    else:
        kept = [part for part in parts if _is_content(part)]
    if not kept:
        return None
    return message if len(kept) == len(parts) else replace(message, parts=tuple(kept))


def _is_sendable(part: Part, partial: bool) -> bool:
    if type(part) is ToolCall:
        return not part.unfinished
    if type(part) is Thinking:
        if part.signature or part.encrypted:
            return True
        return not partial and not _is_blank(part.text)
    return _is_content(part)


def _is_content(part: Part) -> bool:
    kind = type(part)
    if kind is Text:
        assert isinstance(part, Text)
        return not _is_blank(part.text)
    return kind is not Thinking and kind is not ToolCall


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _readable(result: ToolResult) -> ToolResult:
    """A result that has something to read, whatever the tool left out."""
    kept = tuple(part for part in result.parts if _is_content(part))
    if not kept:
        said = result.failure.message if result.failure is not None else ""
        kept = (Text(_SILENT[result.outcome] if _is_blank(said) else said),)
    return result if len(kept) == len(result.parts) and kept == result.parts else replace(result, parts=kept)
