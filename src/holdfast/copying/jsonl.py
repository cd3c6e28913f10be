"""
Conversations in a file: one JSON object a line, lossless.

A conversation begins with a line ``{"holdfast": 1, "header": …}``. Lines of one kind each follow, in this
order: ``call``, ``event``, ``record``, ``tag``. The last is ``{"end": hash}``, by which a file that was cut
off or changed is known. Several conversations may stand in one file. The data of an event is its JSON text as
a string, byte for byte; bytes are in base64. docs/export.md shows the fields.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from holdfast.clock import Clock, system_clock
from holdfast.copying.contents import (
    Contents,
    Searchable,
    StoreContents,
    TagName,
    digest,
    finish,
    is_unfinished,
    write,
)
from holdfast.errors import HoldfastError, InvalidInput, NotFound, StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Event, Executor, Header, Record
from holdfast.store import Store

__all__ = ["FileProblem", "Imported", "export", "load"]

VERSION = 1

_PAGE = 500


class _Header(msgspec.Struct, omit_defaults=True):
    owner: str
    id: str
    last_seq: int
    created_at: int
    activity: int
    title: str = ""
    status: str = "idle"
    agent: str = ""
    metadata: str = "{}"
    settings: str = "{}"
    tail: int = 1
    takeovers: int = 0
    wake_at: int | None = None


class _Call(msgspec.Struct, omit_defaults=True):
    call_id: str
    name: str
    status: CallStatus
    executor: Executor
    opened_at: int
    step: int = 0
    data: bytes = b""
    expires_at: int | None = None


class _Event(msgspec.Struct, omit_defaults=True):
    seq: int
    type: str
    data: str
    at: int
    id: str | None = None
    text: str | None = None


class _Record(msgspec.Struct):
    collection: str
    key: str
    data: bytes


class _Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A line; exactly one field but ``holdfast`` is there."""

    holdfast: int | None = None
    header: _Header | None = None
    call: _Call | None = None
    event: _Event | None = None
    record: _Record | None = None
    tag: TagName | None = None
    end: str | None = None


_KINDS = ("header", "call", "event", "record", "tag", "end")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


class FileProblem(msgspec.Struct, frozen=True):
    """Something in a file that was not imported: the number of the line, and why."""

    line: int
    reason: str


class Imported(msgspec.Struct, frozen=True):
    """What an import did. Conversations that were there already, and the same, are in ``unchanged``."""

    conversations: int
    events: int
    unchanged: int
    problems: tuple[FileProblem, ...]


async def export(store: Store, key: ConversationKey, to: IO[bytes]) -> int:
    """
    Write a conversation to a file that is open for binary writing; gives the number of its events.

    Raises:
        NotFound: There is no such conversation for this owner.
    """
    contents = await StoreContents.of(store, key)
    async for line in _lines(contents):
        to.write(_encode(line) + b"\n")
    hash = await digest(StoreContents(store, contents.header))
    to.write(_encode(_Line(end=hash)) + b"\n")
    return contents.header.last_seq


async def load(
    store: Store,
    path: Path,
    *,
    owner: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    clock: Clock = system_clock,
) -> Imported:
    """
    Write the conversations of a file into a store.

    The file is read once before anything is written. A conversation with a broken line, with other content
    than its hash says, or that is there already with other content, is a problem and stops no other.

    Args:
        owner: Whose they become; None is whose they were.
        on_progress: Called after each conversation with the bytes of the file read so far, and all of them.
        clock: What tells how long it is until something expires.

    Raises:
        InvalidInput: The file can't be read.
        StoreError: The store failed. Import the file again.
    """
    problems: list[FileProblem] = []
    conversations = events = unchanged = 0
    try:
        blocks = list(_blocks(path))
    except OSError as exc:
        raise InvalidInput(f"{path} can't be read: {exc.strerror}") from exc
    for block in blocks:
        try:
            if await _write(store, path, block, owner, clock):
                conversations += 1
                events += block.last_seq
            else:
                unchanged += 1
        except StoreError:
            raise
        except HoldfastError as exc:
            problems.append(FileProblem(block.problem.line if block.problem else block.line, str(exc)))
        if on_progress is not None:
            on_progress(block.end, blocks[-1].end)
    return Imported(conversations, events, unchanged, tuple(problems))


async def _write(store: Store, path: Path, block: _Block, owner: str | None, clock: Clock) -> bool:
    """Write a conversation; False if it is there already."""
    if block.problem is not None:
        raise InvalidInput(block.problem.reason)
    contents = _FileContents(path, block, owner)
    key = contents.header.key
    if await digest(_FileContents(path, block, owner)) != block.hash:
        raise InvalidInput(f"{key} is not what it was when it was exported")
    try:
        there = await store.header(key)
    except NotFound:
        pass
    else:
        if not await is_unfinished(store, key):
            if await digest(StoreContents(store, there)) != block.hash:
                raise InvalidInput(f"{key} is in {store.url} already, with another content; left as it is")
            return False
        await store.delete(key, when=there.revision)
    await write(store, contents, clock)
    if await digest(await StoreContents.of(store, key)) != block.hash:
        await store.delete(key)
        raise InvalidInput(f"{key} can't be kept as it is: it has times that are still to come, or go back")
    await finish(store, contents.header, clock)
    return True


async def _lines(contents: Contents) -> AsyncIterator[_Line]:
    h = contents.header
    yield _Line(
        holdfast=VERSION,
        header=_Header(
            owner=h.key.owner,
            id=h.key.id,
            last_seq=h.last_seq,
            created_at=h.created_at,
            activity=h.activity,
            title=h.title,
            status=h.status,
            agent=h.agent,
            metadata=h.metadata.decode(),
            settings=h.settings.decode(),
            tail=h.tail,
            takeovers=h.takeovers,
            wake_at=h.wake_at,
        ),
    )
    for c in await contents.calls():
        yield _Line(
            call=_Call(c.call_id, c.name, c.status, c.executor, c.opened_at, c.step, c.data, c.expires_at)
        )
    async for events in contents.events():
        for e, text in ((some.event, some.text) for some in events):
            yield _Line(event=_Event(e.seq, e.type, e.data.decode(), e.at, e.id, text))
    async for records in contents.records():
        for r in records:
            yield _Line(record=_Record(r.collection, r.key, r.data))
    for tag in await contents.tags():
        yield _Line(tag=tag)


class _Block(msgspec.Struct):
    """The lines of one conversation: where they are, and what is wrong with them."""

    line: int
    start: int
    end: int
    last_seq: int = 0
    hash: str = ""
    problem: FileProblem | None = None


def _blocks(path: Path) -> Iterator[_Block]:
    block: _Block | None = None
    last = _END
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            start, end = file.tell() - len(raw), file.tell()
            try:
                line = _decode(raw)
                kind = _kind(line)
                reason = _out_of_place(line, kind, last)
            except (msgspec.MsgspecError, InvalidInput) as exc:
                line, kind, reason = None, _END, str(exc)
            if block is None or kind == _HEADER:
                if block is not None:
                    yield _whole(block, last)
                block = _Block(number, start, end)
            block.end = end
            if reason and block.problem is None:
                block.problem = FileProblem(number, reason)
            if line is not None:
                block.last_seq = line.header.last_seq if line.header else block.last_seq
                block.hash = line.end or block.hash
                last = kind
    if block is not None:
        yield _whole(block, last)


_HEADER, _END = 0, len(_KINDS) - 1


def _kind(line: _Line) -> int:
    kinds = [number for number, name in enumerate(_KINDS) if getattr(line, name) is not None]
    if len(kinds) != 1:
        raise InvalidInput(f"a line has one of {', '.join(_KINDS)}, not {len(kinds)} of them")
    return kinds[0]


def _out_of_place(line: _Line, kind: int, last: int) -> str:
    if kind == _HEADER:
        if line.holdfast is None or line.holdfast > VERSION:
            return f"version {line.holdfast} of this format is not known; this is version {VERSION}"
        return ""
    if last == _END:
        return "a line outside of any conversation: one begins with its header"
    return f"a line with {_KINDS[kind]} after one with {_KINDS[last]}" if kind < last else ""


def _whole(block: _Block, last: int) -> _Block:
    if last != _END and block.problem is None:
        block.problem = FileProblem(
            block.line, "the conversation that begins here has no end: the file was cut off"
        )
    return block


class _FileContents(Contents):
    """A conversation in a file that was looked through before."""

    def __init__(self, path: Path, block: _Block, owner: str | None) -> None:
        self._lines = _read(path, block)
        self._next: _Line | None = next(self._lines)
        assert self._next is not None
        h = self._next.header
        assert h is not None
        self._next = next(self._lines, None)
        self.header = Header(
            key=ConversationKey(h.owner if owner is None else owner, h.id),
            last_seq=h.last_seq,
            created_at=h.created_at,
            activity=h.activity,
            revision=0,
            version=0,
            title=h.title,
            status=h.status,
            agent=h.agent,
            metadata=h.metadata.encode(),
            settings=h.settings.encode(),
            tail=h.tail,
            takeovers=h.takeovers,
            wake_at=h.wake_at,
        )

    async def calls(self) -> list[Call]:
        return [
            Call(
                self.header.key,
                c.call_id,
                c.name,
                c.status,
                c.executor,
                c.step,
                c.data,
                c.opened_at,
                c.expires_at,
            )
            for c in self._take("call")
        ]

    async def events(self) -> AsyncIterator[list[Searchable]]:
        events = self._take("event")
        while page := list(itertools.islice(events, _PAGE)):
            yield [Searchable(Event(e.seq, e.type, e.data.encode(), e.at, e.id), e.text) for e in page]

    async def records(self) -> AsyncIterator[list[Record]]:
        records = self._take("record")
        while page := list(itertools.islice(records, _PAGE)):
            yield [Record(r.collection, r.key, r.data, 0) for r in page]

    async def tags(self) -> list[TagName]:
        return list(self._take("tag"))

    def _take(self, kind: str) -> Iterator[Any]:
        while self._next is not None and (value := getattr(self._next, kind)) is not None:
            yield value
            self._next = next(self._lines, None)


def _read(path: Path, block: _Block) -> Iterator[_Line]:
    with path.open("rb") as file:
        file.seek(block.start)
        while file.tell() < block.end:
            yield _decode(file.readline())
