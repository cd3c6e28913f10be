"""What a row for people may show: one shape for each kind, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.events import Failure, NoticeLevel, Outcome, Todo
from holdfast.model.messages import JSON, Part, Source, StopReason
from holdfast.model.records import CallStatus, Executor

__all__ = [
    "CallContent",
    "Content",
    "DataContent",
    "ErrorContent",
    "FileContent",
    "ImageContent",
    "NotificationContent",
    "ResultContent",
    "Row",
    "TextContent",
    "ThinkingContent",
    "TodosContent",
    "row_content",
]


class TextContent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="text"):
    """Words."""

    text: str


class ThinkingContent(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="thinking"
):
    """What a model thought; ``hidden`` if only the provider can read it."""

    text: str = ""
    hidden: bool = False


class ImageContent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="image"):
    """A picture."""

    source: Source
    media_type: str | None = None


class FileContent(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="file_reference"
):
    """A document, a sound, a film."""

    source: Source
    name: str | None = None
    media_type: str | None = None


class DataContent(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="structured_data"
):
    """A value for a program to draw."""

    value: JSON
    name: str | None = None


class NotificationContent(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="notification"
):
    """Something that no model said. ``about`` names it for programs, ``value`` has what else it shows."""

    text: str
    level: NoticeLevel = "info"
    about: str | None = None
    value: JSON = None


class ErrorContent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="error"):
    """What went wrong, in words for people."""

    message: str
    code: str | None = None
    retryable: bool = False


class CallContent(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="tool_call"
):
    """
    The card of a tool call.

    ``metadata`` collects what events said of the call: attempts, what it waits for, how that was answered.
    """

    call_id: str
    name: str
    args: JSON = None
    status: CallStatus = "pending"
    executor: Executor = "server"
    metadata: dict[str, JSON] = {}


class ResultContent(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="tool_result"
):
    """
    What a tool answered; ``artifact`` is what it made for people and programs.

    ``placeholder``: the real result has its own row, later.
    """

    call_id: str
    outcome: Outcome
    parts: tuple[Part, ...] = ()
    failure: Failure | None = None
    artifact: JSON = None
    placeholder: bool = False


class TodosContent(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind", tag="todo_snapshot"
):
    """The list of things to do as it was then."""

    todos: tuple[Todo, ...]


Content: TypeAlias = (
    TextContent
    | ThinkingContent
    | ImageContent
    | FileContent
    | DataContent
    | NotificationContent
    | ErrorContent
    | CallContent
    | ResultContent
    | TodosContent
)


class Row(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """
    One row. Its ``id`` is made of the event's seq and the part's place, and never changes.

    ``stop`` stands at the last row of a message that was not finished and says why. ``mark`` says that it
    was undone, or that it lies before a reset; models do not go on from it.
    """

    id: str
    seq: int
    at: int
    role: Literal["user", "assistant", "tool", "system"]
    content: Content
    message_id: str | None = None
    stop: StopReason | None = None
    stop_detail: str | None = None
    actor: str | None = None
    mark: Literal["retracted", "reset"] | None = None

    @property
    def kind(self) -> str:
        """What it shows, in one word: the tag of its content."""
        return str(self.content.__struct_config__.tag)


ROW_KINDS: frozenset[str] = frozenset(shape.__struct_config__.tag for shape in get_args(Content))
"""The kinds of rows there are."""


def row_content(kind: str, value: Mapping[str, JSON]) -> Content:
    """
    The content of a row that somebody else made, checked against the shape of its kind.

    >>> row_content("text", {"text": "Hi"})
    TextContent(text='Hi')

    Raises:
        InvalidPayload: There is no such kind, or its content has another shape.
    """
    if kind not in ROW_KINDS:
        raise InvalidPayload("$.kind", f"is {kind!r}; rows are {', '.join(sorted(ROW_KINDS))}")
    try:
        shape: Any = Content
        content: Content = msgspec.convert({**value, "kind": kind}, shape)
    except (msgspec.ValidationError, TypeError) as exc:
        raise InvalidPayload("$", f"is not the content of a {kind} row: {exc}") from exc
    return content
