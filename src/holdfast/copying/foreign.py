"""
Conversations that others wrote: OpenAI chat JSON, Anthropic messages JSON, sessions of Claude Code.

Each becomes a log of messages and tool results. What can't be read is named by its place and left out; the
transcript of what is left is repaired as any other, so a model can go on with it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.copying.jsonl import FileProblem, Imported
from holdfast.errors import AlreadyExists, HoldfastError, InvalidInput, StoreError
from holdfast.ids import ConversationKey
from holdfast.model import Message, ToolResult, encode, search_text, type_of
from holdfast.store import ABSENT, Append, SetHeader, Store
from holdfast.views import Turn
from holdfast.views.formats import from_anthropic, from_openai

__all__ = ["Format", "load_foreign"]

Format: TypeAlias = Literal["openai", "anthropic", "claude-code"]

_Said: TypeAlias = tuple[int, dict[str, Any], int | None]
"""Where it stands, a message as its provider has it, and when it was said."""


class _Conversation(msgspec.Struct):
    line: int
    id: str
    title: str
    said: list[_Said]
    problems: list[FileProblem]


async def load_foreign(
    store: Store,
    path: Path,
    format: Format,
    *,
    owner: str,
    id: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """
    Write what another program kept into a store.

    - ``openai``: a list of chat messages, an object with ``messages``, or one such object a line.
    - ``anthropic``: the same, with ``system`` beside ``messages``.
    - ``claude-code``: a session, one entry a line; side chains are left out.

    A message that can't be read is a problem, named by its line (or by its place in the list), and stops
    nothing else.

    Args:
        owner: Whose conversations they become.
        id: The conversation's id; by default the session's, or the name of the file. With several in a
            file, a number is added.
        on_progress: Called after each conversation with how many are written, and how many there are.

    Raises:
        InvalidInput: The file can't be read, or has no message in it.
        StoreError: The store failed.
    """
    found = _read(path, format)
    if not any(conversation.said for conversation in found):
        problem = next((p for c in found for p in c.problems), None)
        why = f": line {problem.line}: {problem.reason}" if problem else ""
        raise InvalidInput(f"{path} has no {format} messages in it{why}")
    problems = [problem for conversation in found for problem in conversation.problems]
    conversations = events = 0
    for number, conversation in enumerate(found, 1):
        name = id or conversation.id
        key = ConversationKey(owner, name if len(found) == 1 else f"{name}-{number}")
        try:
            events += await _write(store, key, conversation, format, problems)
            conversations += 1
        except StoreError:
            raise
        except AlreadyExists:
            problems.append(FileProblem(conversation.line, f"{key} is there already; left as it is"))
        except HoldfastError as exc:
            problems.append(FileProblem(conversation.line, str(exc)))
        if on_progress is not None:
            on_progress(number, len(found))
    return Imported(conversations, events, 0, tuple(sorted(problems, key=lambda problem: problem.line)))


async def _write(
    store: Store,
    key: ConversationKey,
    conversation: _Conversation,
    format: Format,
    problems: list[FileProblem],
) -> int:
    turns = list(_turns(conversation, format, problems))
    create = SetHeader(title=conversation.title, when=ABSENT)
    written = 0
    for at, some in itertools.groupby(turns, key=lambda timed: timed[1]):
        appends = [Append(type_of(turn), encode(turn), text=search_text(turn)) for turn, _ in some]
        try:
            # The first commit must find no such conversation; the others find it.
            await store.commit(key, appends, create=None if written else create, at=at)
        except InvalidInput:
            if written:
                await store.delete(key)
            raise
        written += len(appends)
    return written


def _turns(
    conversation: _Conversation, format: Format, problems: list[FileProblem]
) -> Iterator[tuple[Turn, int | None]]:
    numbers = itertools.count(1)
    calls: dict[str, str] = {}
    for line, message, at in conversation.said:
        try:
            turns = _converted(message, format, lambda: f"imported-{next(numbers)}")
        except HoldfastError as exc:
            problems.append(FileProblem(line, str(exc)))
            continue
        for turn in turns:
            if isinstance(turn, Message):
                calls |= {
                    call.provider_id: call.call_id for call in turn.calls if call.provider_id is not None
                }
                yield turn, at
            else:
                # A result names its call as the provider did.
                yield replace(turn, call_id=calls.get(turn.call_id, turn.call_id)), at


def _converted(
    message: dict[str, Any], format: Format, ids: Callable[[], str]
) -> Sequence[Message | ToolResult]:
    try:
        if format == "openai":
            return from_openai([message], ids=ids)
        if message.get("role") == "system":
            return from_anthropic([], message["content"], ids=ids)
        return from_anthropic([message], ids=ids)
    except (AttributeError, TypeError, KeyError, ValueError) as exc:
        raise InvalidInput(f"no {format} message: {exc}") from exc


# Files


def _read(path: Path, format: Format) -> list[_Conversation]:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{path} is not UTF-8 text: {exc}") from exc
    except OSError as exc:
        raise InvalidInput(f"{path} can't be read: {exc.strerror}") from exc
    if format == "claude-code":
        return [_session(path, text)]
    try:
        return [_messages(path, 1, json.loads(text))]
    except json.JSONDecodeError as exc:
        if "\n" not in text.strip():
            raise InvalidInput(f"{path} is not JSON: {exc}") from exc
    found = []
    for number, line, problem in _lines(text):
        if problem is None:
            found.append(_messages(path, number, line))
        else:
            found.append(_Conversation(number, path.stem, "", [], [problem]))
    return found


def _lines(text: str) -> Iterator[tuple[int, Any, FileProblem | None]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line), None
            except json.JSONDecodeError as exc:
                yield number, None, FileProblem(number, f"not JSON: {exc}")


def _messages(path: Path, line: int, value: Any) -> _Conversation:
    system = None
    if isinstance(value, dict):
        system, value = value.get("system"), value.get("messages")
    found = _Conversation(line, path.stem, "", [], [])
    if not isinstance(value, list):
        found.problems.append(FileProblem(line, "neither a list of messages nor an object with `messages`"))
        return found
    if system:
        found.said.append((line, {"role": "system", "content": system}, None))
    alone = line == 1
    for place, message in enumerate(value, 1):
        where = place if alone else line
        if isinstance(message, dict):
            found.said.append((where, message, None))
        else:
            found.problems.append(FileProblem(where, f"message {place} is no object"))
    return found


def _session(path: Path, text: str) -> _Conversation:
    found = _Conversation(1, path.stem, "", [], [])
    for number, entry, problem in _lines(text):
        if problem is not None:
            found.problems.append(problem)
        elif not isinstance(entry, dict):
            found.problems.append(FileProblem(number, "an entry of a session is an object"))
        elif entry.get("type") == "summary":
            found.title = str(entry.get("summary") or "")
        elif entry.get("type") in ("user", "assistant") and not entry.get("isSidechain"):
            found.id = str(entry.get("sessionId") or found.id)
            _say(found, number, entry)
    return found


def _say(found: _Conversation, number: int, entry: dict[str, Any]) -> None:
    message = entry.get("message")
    if not isinstance(message, dict):
        found.problems.append(FileProblem(number, "an entry without its message"))
        return
    last = found.said[-1] if found.said else None
    if last is not None and message.get("id") is not None and last[1].get("id") == message["id"]:
        # A reply is written one block at a time.
        if isinstance(last[1].get("content"), list) and isinstance(message.get("content"), list):
            last[1]["content"] = [*last[1]["content"], *message["content"]]
        return
    found.said.append((number, message, _microseconds(entry.get("timestamp"))))


def _microseconds(timestamp: object) -> int | None:
    try:
        return int(datetime.fromisoformat(str(timestamp)).timestamp() * 1e6)
    except ValueError:
        return None
