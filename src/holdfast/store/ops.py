"""
The operations of a commit.

Each checks itself when it is made, so a bad one fails where it was written and never inside a
store. They carry no clock and no number that a store decides.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from holdfast.errors import InvalidOp
from holdfast.ids import check_name
from holdfast.model.records import MOVES, OPENED_AS, CallStatus, Executor
from holdfast.store.search import clean

ABSENT: Final = 0
"""The ``when`` of something that must not be there yet."""

_MAX_NUMBER = 2**63 - 1
_EXPIRING: frozenset[CallStatus] = frozenset(("interrupted", "executing"))


class Append(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    Add an event: it gets the next seq.

    A known ``id`` appends nothing and gives the seq it has. ``data`` is UTF-8 JSON text and comes
    back byte for byte. ``text`` is what search finds the event by.
    """

    type: str
    data: bytes
    id: str | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        check_name("event type", self.type)
        if self.id is not None:
            check_name("event id", self.id)
        _check_json_text("event data", self.data)
        if self.text is not None:
            if type(self.text) is not str:
                raise InvalidOp(f"search text must be a string, not {type(self.text).__name__}")
            msgspec.structs.force_setattr(self, "text", clean(self.text))


class SetHeader(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    Replace the given fields of the header; None leaves a field as it is.

    ``when`` is the header's ``version``. Facts with a key of their own belong into records, where
    two writers can't overwrite each other by merging.
    """

    title: str | None = None
    status: str | None = None
    agent: str | None = None
    metadata: bytes | None = None
    settings: bytes | None = None
    tail: int | None = None
    takeovers: int | None = None
    when: int | None = None

    def __post_init__(self) -> None:
        if self.title is not None:
            check_text("title", self.title)
        for field in ("status", "agent"):
            if (value := getattr(self, field)) is not None:
                check_name(field, value, empty=True)
        for field in ("metadata", "settings"):
            if (value := getattr(self, field)) is not None:
                _check_json_text(field, value)
        check_number("tail", self.tail, least=1)
        check_number("takeovers", self.takeovers, least=0)
        check_number("when", self.when, least=0)


class OpenCall(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    Add a tool call; one with that id must not exist.

    It starts as ``pending``, ``interrupted`` (waiting, at step 1) or ``completed`` (somebody else
    ran it). ``expires_in`` is in seconds, by the store's clock.
    """

    call_id: str
    name: str
    status: CallStatus = "pending"
    executor: Executor = "server"
    data: bytes = b""
    expires_in: float | None = None

    def __post_init__(self) -> None:
        check_name("call id", self.call_id)
        check_name("tool name", self.name)
        if self.status not in OPENED_AS:
            raise InvalidOp(f"a call can't be opened as {self.status!r}, only as {_words(OPENED_AS)}")
        if self.executor not in ("server", "human", "client", "provider"):
            raise InvalidOp(f"no executor {self.executor!r}; it is server, human, client or provider")
        _check_bytes("call data", self.data)
        _check_expiry(self.status, self.expires_in)


class MoveCall(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    Move a call to another status, if it is in one of ``when`` (and at ``step``).

    Every move sets the expiry to ``expires_in`` seconds from now, or clears it; a move to the
    same status does only that. ``data`` None leaves the call's data. Into ``interrupted`` the
    step goes up by one.
    """

    call_id: str
    to: CallStatus
    when: frozenset[CallStatus]
    step: int | None = None
    data: bytes | None = None
    expires_in: float | None = None

    def __post_init__(self) -> None:
        check_name("call id", self.call_id)
        if not self.when:
            raise InvalidOp(f"a move of call {self.call_id!r} must name the statuses it may start from")
        for status in self.when:
            if self.to not in MOVES.get(status, ()):
                raise InvalidOp(f"a call can't move from {status!r} to {self.to!r}")
        check_number("step", self.step, least=0)
        if self.data is not None:
            _check_bytes("call data", self.data)
        _check_expiry(self.to, self.expires_in)


class PutRecord(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    Write bytes under a key of a collection.

    ``when`` is the revision that the record must have, or ``ABSENT``. ``keep`` leaves an existing
    record as it is.
    """

    collection: str
    key: str
    data: bytes
    when: int | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        check_name("collection", self.collection)
        check_name("record key", self.key)
        _check_bytes("record data", self.data)
        check_number("when", self.when, least=0)
        if self.keep and self.when is not None:
            raise InvalidOp("a record is put with `keep` or with `when`, not with both")


class DropRecords(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """Remove one record by ``key``, or all whose keys start with ``prefix`` ("" is every one)."""

    collection: str
    key: str | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        check_name("collection", self.collection)
        if (self.key is None) == (self.prefix is None):
            raise InvalidOp(
                'records are dropped by `key` or by `prefix`; prefix="" drops the whole collection'
            )
        if self.key is not None:
            check_name("record key", self.key)
        else:
            check_name("record prefix", self.prefix, empty=True)

    def matches(self, collection: str, key: str) -> bool:
        """Whether this drops the record of that key."""
        if collection != self.collection:
            return False
        return key == self.key if self.prefix is None else key.startswith(self.prefix)


class Tag(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """Make the conversation, or the thing in it that ``ref`` names, findable by name and value."""

    name: str
    value: str
    ref: str = ""

    def __post_init__(self) -> None:
        check_name("tag name", self.name)
        check_name("tag value", self.value)
        check_name("tag ref", self.ref, empty=True)


class Untag(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """Remove a tag; ``ref`` None removes it with every ref."""

    name: str
    value: str
    ref: str | None = None

    def __post_init__(self) -> None:
        check_name("tag name", self.name)
        check_name("tag value", self.value)
        if self.ref is not None:
            check_name("tag ref", self.ref, empty=True)


class Wake(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    The conversation has work, ``after`` seconds from now; an earlier mark stays.

    The mark is no queue: whoever clears it has read the log. Append what the work is about in
    the same commit.
    """

    after: float = 0.0

    def __post_init__(self) -> None:
        check_duration("after", self.after, zero=True)


class Rest(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    The conversation has no work: clear the mark, and with ``release`` the lease too.

    Only with ``fence`` and ``expect``, so that input which came in meanwhile is never lost.
    """

    release: bool = False


class Redact(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    """
    Replace an event that is in the log by a tombstone with a salted hash of it.

    The one exception to "the log is never rewritten", for law and leaked secrets. Its search text
    goes too; records made from it are the caller's to drop in the same commit.
    """

    seq: int

    def __post_init__(self) -> None:
        check_number("seq", self.seq, least=1)


Op: TypeAlias = (
    Append | SetHeader | OpenCall | MoveCall | PutRecord | DropRecords | Tag | Untag | Wake | Rest | Redact
)


def check_text(field: str, value: object) -> None:
    """Refuse what is not text that every backend can keep: lone surrogates and NUL."""
    if type(value) is not str:
        raise InvalidOp(f"{field} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidOp(f"{field} must not contain NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOp(f"{field} contains a lone surrogate, which is not valid UTF-8") from None


def _check_bytes(field: str, value: object) -> None:
    if type(value) is not bytes:
        raise InvalidOp(f"{field} must be bytes, not {type(value).__name__}")


def _check_json_text(field: str, value: object) -> None:
    if type(value) is not bytes:
        raise InvalidOp(f"{field} must be bytes of JSON text, not {type(value).__name__}")
    if not value:
        raise InvalidOp(f"{field} must be JSON text; it is empty")
    if not value.isascii() or b"\0" in value:
        try:
            value.decode()
        except UnicodeDecodeError as exc:
            raise InvalidOp(f"{field} is not valid UTF-8 at byte {exc.start}") from None
        if b"\0" in value:
            raise InvalidOp(f"{field} contains a raw NUL byte; JSON text writes it as \\u0000")


def check_number(field: str, value: object, *, least: int) -> None:
    """Refuse what is neither None nor a whole number from ``least`` up that every backend can hold."""
    if value is not None and (type(value) is not int or not least <= value <= _MAX_NUMBER):
        raise InvalidOp(f"{field} must be a whole number of at least {least}, not {value!r}")


def check_duration(field: str, value: object, *, zero: bool = False) -> None:
    """Refuse what is not a number of seconds that a store can count with."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and value < 1e11
    if not ok or not (value > 0 or (zero and value == 0)):  # type: ignore[operator]
        raise InvalidOp(
            f"{field} must be a number of seconds {'from 0 up' if zero else 'above 0'}, not {value!r}"
        )


def _check_expiry(status: CallStatus, expires_in: float | None) -> None:
    if expires_in is None:
        return
    if status not in _EXPIRING:
        raise InvalidOp(f"a call that is {status} can't expire; only one that waits or runs can")
    check_duration("expires_in", expires_in, zero=True)


def _words(statuses: frozenset[CallStatus]) -> str:
    return ", ".join(sorted(statuses))
