"""
What a conversation is made of, as rows: a key and its bytes.

Keys sort so that what is read together lies together: events by seq, records by collection and key,
tags by name and value. Names have no NUL, so it separates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Commit, Event, Executor, Header, Lease, Record
from holdfast.store.search import located

CALL, EVENT, TAG, ID, RECORD, TOKEN, TAGGED = b"c", b"e", b"g", b"i", b"r", b"t", b"x"

Rows = Mapping[bytes, bytes | None]
"""Rows by key; None for one that was removed."""

MAX_SEQ = 2**63 - 1


def event_key(seq: int) -> bytes:
    """The key of an event."""
    return EVENT + max(0, min(seq, MAX_SEQ)).to_bytes(8, "big")


def key_of(kind: bytes, *names: str) -> bytes:
    """The key of a row that has names."""
    return kind + b"\0".join(name.encode() for name in names)


def end_of(prefix: bytes) -> bytes:
    """The least key above all that start with ``prefix``."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def names_of(key: bytes) -> list[str]:
    """The names in a key."""
    return key[1:].decode().split("\0")


class EventRow(msgspec.Struct, frozen=True, array_like=True):
    """An event. ``text`` says where its search text is, as ``search.locate`` does."""

    type: str
    data: bytes
    at: int
    id: str | None
    text: bytes | None

    def event(self, seq: int) -> Event:
        return Event(seq, self.type, self.data, self.at, self.id)

    def search_text(self) -> str | None:
        return None if self.text is None else located(self.text, self.data)


class CallRow(msgspec.Struct, frozen=True, array_like=True):
    """A call. ``order`` counts the calls of a conversation as they were opened."""

    order: int
    call_id: str
    name: str
    status: CallStatus
    executor: Executor
    step: int
    data: bytes
    opened_at: int
    expires_at: int | None

    @classmethod
    def of(cls, order: int, call: Call) -> CallRow:
        _, *rest = msgspec.structs.astuple(call)
        return cls(order, *rest)

    def call(self, key: ConversationKey) -> Call:
        _, *rest = msgspec.structs.astuple(self)
        return Call(key, *rest)


class RecordRow(msgspec.Struct, frozen=True, array_like=True):
    """A record's bytes and revision."""

    data: bytes
    revision: int

    def record(self, key: bytes) -> Record:
        collection, name = names_of(key)
        return Record(collection, name, self.data, self.revision)


class TokenRow(msgspec.Struct, frozen=True, array_like=True):
    """What a token stands for: a digest of the operations, and what they did."""

    digest: bytes
    seqs: tuple[int, ...]
    revisions: tuple[int, ...]
    prev_seq: int
    last_seq: int
    at: int

    @classmethod
    def of(cls, digest: bytes, commit: Commit) -> TokenRow:
        return cls(digest, *msgspec.structs.astuple(commit))

    def commit(self) -> Commit:
        _, *rest = msgspec.structs.astuple(self)
        return Commit(*rest)


pack = msgspec.msgpack.Encoder().encode
unpack_event = msgspec.msgpack.Decoder(EventRow).decode
unpack_call = msgspec.msgpack.Decoder(CallRow).decode
unpack_record = msgspec.msgpack.Decoder(RecordRow).decode
unpack_token = msgspec.msgpack.Decoder(TokenRow).decode
unpack_seq = msgspec.msgpack.Decoder(int).decode
unpack_tag = msgspec.msgpack.Decoder(str).decode


def seq_of(key: bytes) -> int:
    """The seq in an event's key."""
    return int.from_bytes(key[1:], "big")


def header_fields(header: Header, before: Header | None = None) -> dict[str, Any]:
    """The fields of a header that differ from the one before; all but the key if there was none."""
    fields = {}
    for field in header.__struct_fields__[1:]:
        value = getattr(header, field)
        if before is None or value != getattr(before, field):
            if isinstance(value, Lease):
                value = (value.holder, value.fence, value.until)
            fields[field] = value
    return fields


def with_fields(header: Header, fields: dict[str, Any]) -> Header:
    """A header with the fields that ``header_fields`` gave."""
    if lease := fields.get("lease"):
        fields = {**fields, "lease": Lease(header.key, *lease)}
    return msgspec.structs.replace(header, **fields)
