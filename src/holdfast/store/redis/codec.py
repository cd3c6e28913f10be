"""Rows as the scripts keep them, and as the contract gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Event, Executor, Header, Lease, Record
from holdfast.store.ops import Append, SetHeader
from holdfast.store.search import locate

STAMP = 16
"""Digits of the time that an event begins with; the script writes them."""

HEADER_FIELDS = (
    *(b"base", b"seq", b"born", b"act", b"rev", b"ver", b"title", b"status", b"agent", b"metadata"),
    *(b"settings", b"tail", b"takeovers", b"wake", b"holder", b"fence", b"until", b"from", b"at"),
)

_SET = ("title", "status", "agent", "metadata", "settings", "tail", "takeovers")


def header(key: ConversationKey, fields: Sequence[bytes | None]) -> Header | None:
    """The header that a conversation's fields make; None if there is no conversation."""
    base, seq, born, active, revision, version = fields[:6]
    title, status, agent, metadata, settings, tail, takeovers, wake = fields[6:14]
    holder, fence, until, forked_from, forked_at = fields[14:]
    if base is None:
        return None
    return Header(
        key=key,
        last_seq=int(seq or 0),
        created_at=int(born or 0),
        activity=int(active or 0),
        revision=int(revision or 0),
        version=int(version or 0),
        title=(title or b"").decode(),
        status="idle" if status is None else status.decode(),
        agent=(agent or b"").decode(),
        metadata=b"{}" if metadata is None else metadata,
        settings=b"{}" if settings is None else settings,
        tail=int(tail or 1),
        takeovers=int(takeovers or 0),
        wake_at=None if wake is None else int(wake),
        lease=None if holder is None else Lease(key, holder.decode(), int(fence or 0), int(until or 0)),
        forked_from=None if forked_from is None else forked_from.decode(),
        forked_at=int(forked_at or 0),
    )


def given(change: SetHeader) -> list[str]:
    """The fields that a change of the header sets, each followed by its value."""
    pairs = ((field, getattr(change, field)) for field in _SET)
    return [
        part
        for field, value in pairs
        if value is not None
        for part in (field, value.decode() if isinstance(value, bytes) else str(value))
    ]


def event_body(op: Append) -> bytes:
    """An event without its time."""
    search = locate(op.text, op.data) if op.text else b""
    return b"\0".join((op.type.encode(), (op.id or "").encode(), search, op.data))


def event(seq: int, row: bytes) -> Event:
    """An event as it is kept."""
    kind, id, _, data = row[STAMP:].split(b"\0", 3)
    return Event(seq, kind.decode(), data, int(row[:STAMP]), id.decode() or None)


def search_text(row: bytes) -> tuple[bytes, bytes] | None:
    """Where an event's search text stands, and its data; None if it has no text."""
    _, _, search, data = row[STAMP:].split(b"\0", 3)
    return (search, data) if search else None


def call(key: ConversationKey, call_id: bytes, line: bytes, data: bytes) -> Call:
    """A call as it is kept."""
    status, executor, step, opened, expires, _, name = line.split(b" ", 6)
    return Call(
        key=key,
        call_id=call_id.decode(),
        name=name.decode(),
        status=cast(CallStatus, status.decode()),
        executor=cast(Executor, executor.decode()),
        step=int(step),
        data=data,
        opened_at=int(opened),
        expires_at=None if expires == b"-" else int(expires),
    )


def ordinal(line: bytes) -> int:
    """A call's place in the order in which they were opened."""
    return int(line.split(b" ", 6)[5])


def record(name: bytes, revision: bytes, data: bytes) -> Record:
    """A record as it is kept."""
    collection, _, key = name.partition(b"\0")
    return Record(collection.decode(), key.decode(), data, int(revision))
