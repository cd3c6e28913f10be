"""What a loop gives and takes: messages of SDKs as dicts or objects, texts, and payloads of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, get_args
from uuid import uuid4

from holdfast.errors import InvalidInput
from holdfast.model import Compaction, Message, Payload, Reset, Retract, Rewrite, Text
from holdfast.views import Turn
from holdfast.views.formats import (
    from_anthropic,
    from_langchain,
    from_openai,
    from_responses,
    to_anthropic,
    to_langchain,
    to_openai,
    to_responses,
)

Format = Literal["openai", "responses", "anthropic", "langchain"]
"""Whose message format: OpenAI's chat completions or responses, Anthropic's, LangChain's."""

_READERS: Final[dict[Format, Callable[..., tuple[Turn, ...]]]] = {
    "openai": from_openai,
    "responses": from_responses,
    "anthropic": from_anthropic,
    "langchain": from_langchain,
}
_WRITERS: Final[dict[Format, Callable[..., Any]]] = {
    "openai": to_openai,
    "responses": to_responses,
    "anthropic": to_anthropic,
    "langchain": to_langchain,
}
_PAYLOADS = get_args(Payload)
_VIEW_CHANGES = (Compaction, Rewrite, Retract, Reset)


def check_format(format: Format) -> Format:
    """
    The format, if there is such a one.

    Raises:
        InvalidInput: There is none.
    """
    if format not in _READERS:
        raise InvalidInput(f"no format {format!r}; there are {', '.join(_READERS)}")
    return format


def written(turns: tuple[Turn, ...], format: Format, media: Mapping[str, bytes]) -> Any:
    """Turns as an SDK takes them."""
    return _WRITERS[format](turns, media=media)


def payloads(items: Iterable[object], format: Format | None, token: str | None = None) -> list[Payload]:
    """
    Items as payloads of a log.

    Raises:
        InvalidInput: One can't be read, or changes what a model sees.
    """
    ids = _ids(token)
    found: list[Payload] = []
    for item in items:
        if isinstance(item, str):
            found.append(Message(ids(), "user", (Text(item),)))
        elif isinstance(item, _VIEW_CHANGES):
            raise InvalidInput(
                f"a {type(item).__name__} changes what a model sees and is not appended; "
                "use summarise, rewrite or rewind"
            )
        elif isinstance(item, _PAYLOADS):
            found.append(item)
        elif format is None:
            raise InvalidInput(
                f"a {type(item).__name__} can be of any provider; say whose with append(…, format='openai')"
            )
        else:
            several = isinstance(item, (list, tuple))
            found += _READERS[check_format(format)](item if several else [item], ids=ids)
    return found


def _ids(token: str | None) -> Callable[[], str]:
    """Ids of new messages. With a token they are made from it, so that a repetition has the same ones."""
    if token is None:
        return lambda: f"msg_{uuid4().hex}"
    number = iter(range(1, 1_000_000))
    return lambda: f"{token}/{next(number)}"
