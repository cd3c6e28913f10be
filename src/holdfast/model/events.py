"""
What the events of a log carry: a closed union of frozen structs, one or more for each type.

A field that this version does not know is ignored when a payload is read. Nothing is lost by that: the
log is never rewritten, so a newer version finds its field where it put it. A type or version that is
not known at all is an ``UnknownEvent``, with its bytes.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from holdfast.model.messages import JSON, Data, File, Message, Part, Text, Usage

Origin = Literal["person", "task", "child", "system"]
"""Where input comes from: somebody, a background task, a sub-agent, or the application itself."""

RunOutcome = Literal["completed", "cancelled", "failed", "halted"]
Outcome = Literal["ok", "error", "rejected", "cancelled", "expired", "unknown", "detached"]
SuspensionKind = Literal["approval", "question", "client", "child"]

Decision = Literal["approve", "edit", "reject", "answer", "result", "expire"]
"""How a wait ended: by a person (the first four), by a client or child, or by time."""

TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]
NoticeLevel = Literal["info", "warning", "error"]

# Base64, a token, a minified file: nobody looks for it, and it would fill the index. Only ASCII counts,
# because some languages write long sentences without a space.
_NO_WORDS = re.compile("[!-~]{201}")


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong: ``message`` is for people, ``detail`` for whoever has to fix it."""

    code: str
    message: str = ""
    detail: str | None = None


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    Something for the agent to read, durable before it is delivered.

    ``client_id`` is the sender's own name for it. From a task or child, ``call_id`` and ``outcome``
    say which detached call ended, and how.
    """

    parts: tuple[Part, ...]
    source: Origin = "person"
    actor: str | None = None
    client_id: str | None = None
    call_id: str | None = None
    outcome: Outcome | None = None


class RunStarted(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="state", tag="started"):
    """A run began. Runs of a conversation are numbered 1, 2, 3…"""

    run: int
    trigger: Origin
    agent: str
    agent_version: str | None = None
    actor: str | None = None
    options: dict[str, JSON] = {}


class RunParked(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="state", tag="parked"):
    """A run waits for what only an operator can give; ``reason`` names it."""

    run: int
    reason: str


class RunEnded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="state", tag="ended"):
    """A run is over. ``reason`` is the message of a halt or cancel; only a failed one is ``retryable``."""

    run: int
    outcome: RunOutcome
    reason: str | None = None
    failure: Failure | None = None
    retryable: bool = False
    actor: str | None = None


class Cancel(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody wants this run to stop; whoever holds the lease ends it."""

    run: int
    actor: str | None = None
    reason: str | None = None


class ToolStarted(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    The side effect of a call may have begun from here on.

    ``fence`` is the lease it runs under. A client's claim has none, but the ``step`` that it took and
    its ``actor``.
    """

    call_id: str
    attempt: int = 1
    fence: int | None = None
    step: int | None = None
    actor: str | None = None


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    The only result of a call: what the model reads.

    ``artifact`` is for programs and people and never goes to a model. ``degraded`` says that something
    in the tool's answer was no JSON and became text.
    """

    call_id: str
    outcome: Outcome
    parts: tuple[Part, ...] = ()
    failure: Failure | None = None
    artifact: JSON = None
    degraded: bool = False


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the answers that a question offers."""

    value: str
    label: str | None = None
    description: str | None = None


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person is asked. Without options only free text makes sense."""

    text: str
    options: tuple[Option, ...] = ()
    multiple: bool = False
    free_text: bool = True


class Suspension(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A call waits for something outside.

    ``step`` counts its waits and ``args_hash`` is of the arguments shown, so an answer names exactly
    what it answers. ``decisions`` are the ones allowed (empty: those that the kind has). ``expires_in``
    counts seconds from the event's time. ``child`` is the id of the sub-agent's conversation.
    """

    call_id: str
    step: int
    kind: SuspensionKind
    args_hash: str | None = None
    prompt: str | None = None
    question: Question | None = None
    decisions: tuple[Decision, ...] = ()
    expires_in: int | float | None = None
    child: str | None = None


class Resolution(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    The one answer that a wait gets.

    ``args`` are the edited arguments of an ``edit``; the call keeps the original ones beside them.
    ``answer`` is what was said to a question. ``reason`` is for the model to read.
    """

    call_id: str
    step: int
    decision: Decision
    args_hash: str | None = None
    args: JSON = None
    answer: JSON = None
    reason: str | None = None
    actor: str | None = None


class Compaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    The model reads ``text`` instead of the events ``from_seq..to_seq``; people still see those.

    ``base`` is the revision of the view record that it was computed from.
    """

    base: int
    from_seq: int
    to_seq: int
    text: str
    model: str | None = None
    usage: Usage | None = None


class Entry(msgspec.Struct, frozen=True):
    """An event inside an event: its type, and its payload as it would stand in the log."""

    type: str
    data: msgspec.Raw


class Replacement(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the model reads instead of the events ``from_seq..to_seq``; nothing, if there is no entry."""

    from_seq: int
    to_seq: int
    entries: tuple[Entry, ...] = ()


class Rewrite(msgspec.Struct, frozen=True, omit_defaults=True):
    """The model's view was changed: one stubbed result, or the whole of it."""

    base: int
    replacements: tuple[Replacement, ...]
    reason: str | None = None
    actor: str | None = None


class Retract(msgspec.Struct, frozen=True, omit_defaults=True):
    """The events ``from_seq..to_seq`` were undone: neither models nor people go on from them."""

    base: int
    from_seq: int
    to_seq: int
    reason: str | None = None
    actor: str | None = None


class Reset(msgspec.Struct, frozen=True, omit_defaults=True):
    """The model's view starts anew after this event."""

    base: int
    reason: str | None = None
    actor: str | None = None


class Redacted(msgspec.Struct, frozen=True):
    """
    The tombstone that a store leaves in the place of an event.

    ``hash`` is the SHA-256 of the bytes of ``salt`` and the data that was there, all in hex.
    """

    type: str
    salt: str
    hash: str

    def matches(self, original: bytes) -> bool:
        """Whether these were the bytes of the event, for somebody who has a copy."""
        try:
            salt = bytes.fromhex(self.salt)
        except ValueError:
            return False
        return hmac.compare_digest(sha256(salt + original).hexdigest().encode(), self.hash.encode())


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing the agent means to do."""

    id: str
    content: str
    status: TodoStatus = "pending"


class StatePatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A change of what the agent keeps beside the log; what it does not name stays.

    ``todos`` replaces the list. ``set`` and ``unset`` change single keys of the metadata.
    """

    title: str | None = None
    todos: tuple[Todo, ...] | None = None
    set: dict[str, JSON] = {}
    unset: tuple[str, ...] = ()
    actor: str | None = None


class UsageReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model call used that no message or compaction reports: a title, a retry, a failed call."""

    purpose: str
    usage: Usage
    model: str | None = None
    run: int | None = None


class NoticeRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row for people that no model wrote. ``kind`` says how it is shown, ``value`` what else it shows."""

    id: str
    kind: str
    text: str = ""
    level: NoticeLevel = "info"
    value: JSON = None
    actor: str | None = None


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """A foreign framework's entry, kept verbatim: ``value`` is its JSON text, byte for byte."""

    source: str
    value: msgspec.Raw
    kind: str | None = None


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event of a type or version that is not known here, with its bytes."""

    type: str
    data: bytes


Run: TypeAlias = RunStarted | RunParked | RunEnded

Payload: TypeAlias = (
    Input
    | Message
    | RunStarted
    | RunParked
    | RunEnded
    | Cancel
    | ToolStarted
    | ToolResult
    | Suspension
    | Resolution
    | Compaction
    | Rewrite
    | Retract
    | Reset
    | Redacted
    | StatePatch
    | UsageReport
    | NoticeRow
    | Item
    | UnknownEvent
)


def search_text(payload: Payload) -> str | None:
    """
    What a person saw of an event and may look for, or None.

    Not: thinking, signatures, media, arguments, what only a model reads. A message that delivers inputs
    has none either, because its inputs are found already.
    """
    found: list[str]
    match payload:
        case Message(role="system") | Message(inputs=(_, *_)):
            return None
        case Message() | Input():
            found = list(_words_of(payload.parts))
        case ToolResult():
            found = [*_words_of(payload.parts), *_message_of(payload.failure)]
        case RunEnded():
            found = [payload.reason or "", *_message_of(payload.failure)]
        case Suspension():
            found = [payload.prompt or ""]
            if (question := payload.question) is not None:
                found += (question.text, *(option.label or option.value for option in question.options))
        case Resolution():
            found = [payload.reason or "", *_strings(payload.answer)]
        case NoticeRow():
            found = [payload.text, *_strings(payload.value)]
        case _:
            return None
    return "\n".join(text for text in found if text) or None


def _words_of(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text():
                yield part.text
            case Data():
                yield from _strings(part.value)
            case File(name=str(name)):
                yield name


def _message_of(failure: Failure | None) -> tuple[str, ...]:
    return () if failure is None else (failure.message,)


def _strings(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        if not _NO_WORDS.search(value):
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)
