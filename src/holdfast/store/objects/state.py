"""
A conversation as its chain of entries says it is.

An entry has the net effect of one commit, one change of a lease, or the end of the conversation.
A checkpoint has the effect of all entries up to a number. Both fold into a ``State``, which is
never changed: readers keep the one they have while writers go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.ids import ConversationKey
from holdfast.model.records import Header
from holdfast.store.objects.names import Place
from holdfast.store.objects.packing import decoder
from holdfast.store.objects.rows import CallRow, Rows, header_fields, with_fields
from holdfast.store.objects.segments import Segment, has_text

RECENT = 128
"""How many of the last entries a checkpoint knows by their ids."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """An index entry that a conversation has: what it is sorted by, and what makes its name unique."""

    at: int
    tag: str


class Birth(msgspec.Struct, frozen=True):
    """What the first entry of an incarnation says beside its effect."""

    owner: str
    id: str
    incarnation: int
    root: str
    header: dict[str, Any]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    One link of a conversation's chain: what it changes, by values.

    ``id`` is random, and tells a writer whether the entry of a number is its own. ``calls`` are
    those that are open after it, as far as they changed, ``ended`` those that are not any more.
    ``please`` is an entry without effect: somebody could not get in for long, and needs that many
    seconds to.
    """

    id: bytes
    n: int
    birth: Birth | None = None
    commits: int | None = None
    header: dict[str, Any] = msgspec.field(default_factory=dict)
    calls: tuple[CallRow, ...] = ()
    ended: tuple[str, ...] = ()
    opened: int = 0
    rows: dict[bytes, bytes | None] = msgspec.field(default_factory=dict)
    marks: dict[str, Mark | None] = msgspec.field(default_factory=dict)
    redacted: int = 0
    dirty: bool = False
    closed: bool = False
    please: float = 0.0


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that the entries up to ``n`` say. Rows are in the segments, the newest last."""

    id: bytes
    owner: str
    conversation: str
    incarnation: int
    root: str
    version: int
    n: int
    commits: int
    opened: int
    header: dict[str, Any]
    calls: tuple[CallRow, ...]
    marks: dict[str, Mark]
    segments: tuple[Segment, ...]
    recent: tuple[bytes, ...]
    redactions: int
    dirty: bool


class State(msgspec.Struct, frozen=True):
    """
    A conversation after entry ``n``.

    ``tail`` are the entries since the checkpoint ``version``, which covers those up to ``base``;
    ``rows`` is what they wrote, and ``size`` how many bytes that is. ``texts`` says whether there is
    something for search among it. ``recent`` are the ids of the last entries up to ``base``.
    ``dirty`` says that bytes of something that was removed may still be there.
    """

    key: ConversationKey
    place: Place
    root: str
    incarnation: int
    header: Header
    version: int = 0
    base: int = 0
    n: int = 0
    commits: int = 0
    opened: int = 0
    calls: dict[str, CallRow] = msgspec.field(default_factory=dict)
    marks: dict[str, Mark] = msgspec.field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    recent: tuple[bytes, ...] = ()
    redactions: int = 0
    dirty: bool = False
    closed: bool = False
    tail: tuple[Entry, ...] = ()
    rows: Rows = msgspec.field(default_factory=dict)
    size: int = 0
    texts: bool = False


decode_entry = decoder(Entry)
decode_checkpoint = decoder(Checkpoint)


def blank_header(key: ConversationKey) -> Header:
    """A header to be filled."""
    return Header(key, 0, 0, 0, 0, 0)


def born(place: Place, entry: Entry) -> State:
    """The state before the first entry of an incarnation."""
    birth = entry.birth
    assert birth is not None
    key = ConversationKey(birth.owner, birth.id)
    header = with_fields(blank_header(key), birth.header)
    return State(key, place, birth.root, birth.incarnation, header)


def fold(state: State, entry: Entry) -> State:
    """The state after one more entry."""
    assert entry.n == state.n + 1
    calls, marks, rows = state.calls, state.marks, state.rows
    if entry.calls or entry.ended:
        calls = {id: call for id, call in calls.items() if id not in entry.ended}
        calls.update((call.call_id, call) for call in entry.calls)
    if entry.marks:
        changed = {**marks, **entry.marks}
        marks = {kind: mark for kind, mark in changed.items() if mark is not None}
    texts = state.texts
    if entry.rows:
        rows = {**rows, **entry.rows}
        texts = texts or any(map(has_text, entry.rows.items()))
    return replace(
        state,
        n=entry.n,
        commits=state.commits if entry.commits is None else entry.commits,
        opened=state.opened + entry.opened,
        header=with_fields(state.header, entry.header) if entry.header else state.header,
        calls=calls,
        marks=marks,
        redactions=state.redactions + entry.redacted,
        dirty=state.dirty or entry.dirty,
        closed=entry.closed,
        tail=(*state.tail, entry),
        rows=rows,
        size=state.size + sum(len(key) + len(value or b"") for key, value in entry.rows.items()),
        texts=texts,
    )


def checkpoint(
    state: State, id: bytes, segments: tuple[Segment, ...], *, version: int, dirty: bool
) -> Checkpoint:
    """A checkpoint of all that a state has."""
    return Checkpoint(
        id=id,
        owner=state.key.owner,
        conversation=state.key.id,
        incarnation=state.incarnation,
        root=state.root,
        version=version,
        n=state.n,
        commits=state.commits,
        opened=state.opened,
        header=header_fields(state.header),
        calls=tuple(state.calls.values()),
        marks=state.marks,
        segments=segments,
        recent=ids(state)[-RECENT:],
        redactions=state.redactions,
        dirty=dirty,
    )


def restored(place: Place, saved: Checkpoint) -> State:
    """The state that a checkpoint was made of."""
    key = ConversationKey(saved.owner, saved.conversation)
    return State(
        key=key,
        place=place,
        root=saved.root,
        incarnation=saved.incarnation,
        header=with_fields(blank_header(key), saved.header),
        version=saved.version,
        base=saved.n,
        n=saved.n,
        commits=saved.commits,
        opened=saved.opened,
        calls={call.call_id: call for call in saved.calls},
        marks=saved.marks,
        segments=saved.segments,
        recent=saved.recent,
        redactions=saved.redactions,
        dirty=saved.dirty,
    )


def rebased(state: State, saved: Checkpoint) -> State:
    """A state on top of a newer checkpoint of the same chain, which it has all entries of."""
    return extended(restored(state.place, saved), state.tail)


def extended(state: State, entries: Iterable[Entry]) -> State:
    """The state after those of some entries that it does not have yet."""
    for entry in entries:
        if entry.n > state.n:
            state = fold(state, entry)
    return state


def ids(state: State) -> tuple[bytes, ...]:
    """The ids of the last entries, the newest last."""
    return (*state.recent, *(entry.id for entry in state.tail))
