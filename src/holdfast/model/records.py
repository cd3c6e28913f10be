"""
What a store gives back, as frozen structs.

Times are whole microseconds since 1970 (UTC). Numbers that guard a write (``revision``,
``version``, ``fence``) are integers that never repeat for a key, not even after a delete and a
new start, so a stale guard can't match by accident.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.ids import ConversationKey

CallStatus = Literal[
    "pending", "executing", "interrupted", "detached", "completed", "failed", "cancelled", "expired"
]
Executor = Literal["server", "human", "client", "provider"]

OPEN: frozenset[CallStatus] = frozenset(("pending", "executing", "interrupted", "detached"))
FINAL: frozenset[CallStatus] = frozenset(("completed", "failed", "cancelled", "expired"))
OPENED_AS: frozenset[CallStatus] = frozenset(("pending", "interrupted", "completed"))
MOVES: dict[CallStatus, frozenset[CallStatus]] = {
    "pending": frozenset(("pending", "executing", "interrupted", "cancelled", "completed", "failed")),
    "executing": frozenset(
        ("executing", "completed", "failed", "cancelled", "interrupted", "detached", "expired"),
    ),
    "interrupted": frozenset(
        ("interrupted", "pending", "executing", "completed", "failed", "cancelled", "expired"),
    ),
    "detached": frozenset(("detached", "completed", "failed", "cancelled")),
}
"""Which status a call may move to. A move to its own status only sets its expiry anew."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """
    One entry of the log.

    ``data`` is UTF-8 JSON text, byte for byte as it was appended. Order is by ``seq`` alone.
    """

    seq: int
    type: str
    data: bytes
    at: int
    id: str | None = None


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The right to run a conversation's agent, until ``until``; ``fence`` proves it in each commit."""

    key: ConversationKey
    holder: str
    fence: int
    until: int


class Header(msgspec.Struct, frozen=True, gc=False):
    """
    What is known of a conversation without reading its log.

    ``revision`` changes with every commit; ``version`` only with a ``SetHeader``, so that a
    change of title does not conflict with a new message. ``tail`` is the seq from which
    ``load`` reads. ``wake_at`` is when the conversation has work, or None. ``takeovers`` counts
    leases that ran out since it was last set to 0.
    """

    key: ConversationKey
    last_seq: int
    created_at: int
    activity: int
    revision: int
    version: int
    title: str = ""
    status: str = "idle"
    agent: str = ""
    metadata: bytes = b"{}"
    settings: bytes = b"{}"
    tail: int = 1
    takeovers: int = 0
    wake_at: int | None = None
    lease: Lease | None = None
    forked_from: str | None = None
    forked_at: int = 0


class Call(msgspec.Struct, frozen=True, gc=False):
    """
    One tool call and where it stands.

    ``step`` counts how often it began to wait, so an answer can name what it answers. ``data``
    is opaque bytes of whoever opened it.
    """

    key: ConversationKey
    call_id: str
    name: str
    status: CallStatus
    executor: Executor = "server"
    step: int = 0
    data: bytes = b""
    opened_at: int = 0
    expires_at: int | None = None


class Record(msgspec.Struct, frozen=True, gc=False):
    """Bytes under a key of a collection. ``revision`` guards the next write."""

    collection: str
    key: str
    data: bytes
    revision: int


class Commit(msgspec.Struct, frozen=True):
    """
    What a commit did.

    ``seqs`` has one number for each ``Append`` (the old one for a known id), ``revisions`` one
    for each ``PutRecord``. The log ended at ``prev_seq`` before and at ``last_seq`` after.
    """

    seqs: tuple[int, ...]
    revisions: tuple[int, ...]
    prev_seq: int
    last_seq: int
    at: int


class Loaded(msgspec.Struct, frozen=True):
    """All that is needed to go on with a conversation, from one moment."""

    header: Header
    events: list[Event]
    calls: list[Call]
    records: dict[tuple[str, str], Record]


class Inventory(msgspec.Struct, frozen=True):
    """What a conversation has beside its header, log and calls; tags are (name, value, ref)."""

    collections: list[str]
    tags: list[tuple[str, str, str]]


class Found(msgspec.Struct, frozen=True, order=True, gc=False):
    """A conversation that carries a tag, and the ref that the tag points to inside it."""

    key: ConversationKey
    ref: str


class Hit(msgspec.Struct, frozen=True, gc=False):
    """An event whose search text matched. ``snippet`` shows the match in its context."""

    key: ConversationKey
    seq: int
    snippet: str


class Erased(msgspec.Struct, frozen=True):
    """The receipt of a removal: how much of everything is gone."""

    conversations: int = 0
    events: int = 0
    calls: int = 0
    records: int = 0
    tags: int = 0

    def __add__(self, other: Erased) -> Erased:
        return Erased(
            *(
                a + b
                for a, b in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
            )
        )


class Notice(msgspec.Struct, frozen=True):
    """
    Something may have changed.

    Without a payload: a conversation's log or wake mark moved (``key`` None: one that the store
    can't name). With a payload: a ``signal`` of some process.
    """

    key: ConversationKey | None
    payload: bytes | None = None
