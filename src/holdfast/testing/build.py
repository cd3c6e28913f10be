"""Conversations, events and calls in one line, and everything that can be read of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import msgspec

from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Event, Executor, Found, Header, Hit, Record
from holdfast.store import (
    Append,
    MoveCall,
    Op,
    OpenCall,
    PutRecord,
    SetHeader,
    Store,
    Tag,
    Wake,
)

COLLECTIONS = ("notes", "media")
TAGS = (("topic", "travel"), ("topic", "food"))
WORDS = ("hello", "secret", "again")

_PATHS: dict[CallStatus, tuple[CallStatus, ...]] = {
    "pending": (),
    "executing": ("executing",),
    "interrupted": ("interrupted",),
    "detached": ("executing", "detached"),
    "completed": ("completed",),
    "failed": ("failed",),
    "cancelled": ("cancelled",),
}


def a_key(id: str = "c-1", owner: str = "ada") -> ConversationKey:
    """A key, for tests that do not care which."""
    return ConversationKey(owner, id)


def said(text: str, *, id: str | None = None) -> Append:
    """An event that search finds by its text."""
    return Append("message", json.dumps({"text": text}).encode(), id=id, text=text)


def noted(number: int) -> Append:
    """An event that search does not know."""
    return Append("notice", b"%d" % number)


def pending(call_id: str, *, data: bytes = b"", executor: Executor = "server") -> OpenCall:
    """A call that nobody started yet."""
    return OpenCall(call_id, "book_flight", "pending", executor, data)


def interrupted(call_id: str, *, data: bytes = b"", expires_in: float | None = None) -> OpenCall:
    """A call that waits for a person."""
    return OpenCall(call_id, "book_flight", "interrupted", "human", data, expires_in)


def started(call_id: str, *, expires_in: float | None = None) -> MoveCall:
    """A pending call begins to execute."""
    return MoveCall(call_id, "executing", frozenset(("pending",)), expires_in=expires_in)


def answered(call_id: str, *, by: bytes | None = None, step: int | None = None) -> MoveCall:
    """The one answer that a waiting call gets."""
    return MoveCall(call_id, "completed", frozenset(("interrupted",)), step, by)


def cancelled(call_id: str) -> MoveCall:
    """An open call is given up."""
    return MoveCall(call_id, "cancelled", frozenset(("pending", "interrupted", "executing", "detached")))


def expired(call_id: str) -> MoveCall:
    """What a sweeper does to a call that is due."""
    return MoveCall(call_id, "expired", frozenset(("interrupted", "executing")))


def put(
    key: str,
    data: bytes = b"a note",
    *,
    collection: str = "notes",
    when: int | None = None,
    keep: bool = False,
) -> PutRecord:
    """A record, for tests that do not care about its collection."""
    return PutRecord(collection, key, data, when, keep)


async def a_conversation(
    store: Store,
    id: str = "c-1",
    owner: str = "ada",
    *,
    ops: Sequence[Op] = (),
    says: Sequence[str] = (),
    calls: Sequence[OpenCall] = (),
    title: str | None = None,
    agent: str | None = None,
) -> ConversationKey:
    """A new conversation with these operations, texts and calls in it."""
    key = ConversationKey(owner, id)
    await store.commit(
        key, [*map(said, says), *calls, *ops], create=SetHeader(title=title, agent=agent, when=0)
    )
    return key


async def a_rich_conversation(store: Store, id: str = "c-1", owner: str = "ada") -> ConversationKey:
    """A new conversation that has something of everything; calls are named by their status."""
    key = await a_conversation(
        store,
        id,
        owner,
        title="a trip",
        agent="guide",
        says=["hello there", "a secret thing"],
        calls=[interrupted("interrupted", data=b"which seat?", expires_in=60)],
        ops=[
            said("hello again", id="event-3"),
            noted(4),
            put("one"),
            put("two"),
            put("photo", b"\x00\xff", collection="media"),
            *(Tag(*tag, ref="here") for tag in TAGS),
            Wake(after=5),
        ],
    )
    for status in ("pending", "executing", "completed"):
        await a_call(store, key, status, executor="human")
    return key


async def a_call(
    store: Store,
    key: ConversationKey,
    status: CallStatus,
    call_id: str = "",
    *,
    executor: Executor = "server",
) -> str:
    """A new call in this status, by the moves that lead there; it has the status' name if it gets no other."""
    call_id = call_id or status
    await store.commit(key, [pending(call_id, executor=executor)])
    here: CallStatus = "pending"
    for there in _PATHS[status]:
        await store.commit(key, [MoveCall(call_id, there, frozenset((here,)))])
        here = there
    return call_id


class Seen(msgspec.Struct, frozen=True):
    """All that a store says of some owners."""

    owners: list[str]
    by_activity: list[Header]
    by_creation: list[Header]
    events: list[list[Event]]
    calls: list[list[Call]]
    records: list[list[Record]]
    found: list[list[Found]]
    tagged: list[list[Header]]
    hits: list[list[Hit]]
    open_calls: list[list[Call]]
    due: list[Call]


async def seen(store: Store, *owners: str, collections: Collection[str] = COLLECTIONS) -> Seen:
    """Read everything that the store has of these owners, by every way in."""
    await store.settle()
    by_creation = [
        header for owner in owners for header in await store.headers(owner, order="created", limit=999)
    ]
    keys = [header.key for header in by_creation]
    return Seen(
        owners=[owner for owner in await store.owners(limit=999) if owner in owners],
        by_activity=[header for owner in owners for header in await store.headers(owner, limit=999)],
        by_creation=by_creation,
        events=[await store.events(key) for key in keys],
        calls=[await store.calls(key) for key in keys],
        records=[await store.records(key, name) for key in keys for name in collections],
        found=[await store.find(owner, *tag) for owner in owners for tag in TAGS],
        tagged=[await store.headers(owner, tag=tag) for owner in owners for tag in TAGS],
        hits=[await store.search(owner, word) for owner in owners for word in WORDS],
        open_calls=[await store.open_calls(owner) for owner in owners],
        due=[call for call in await store.due(limit=999) if call.key.owner in owners],
    )
