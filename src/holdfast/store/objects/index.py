"""
Index entries: small objects whose names say which conversations to look at.

An entry is written before the commit that needs it, and removed after the one that does not any
more, so there may be too many, never too few; whoever reads one looks at the conversation. Which
entries a conversation has is part of its state, and each has a name of its own, so removing one can
never hit another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from holdfast.clock import SECOND
from holdfast.ids import ConversationKey
from holdfast.store.objects.names import folder, hashed, ordered, owner_folder
from holdfast.store.objects.rows import Rows, names_of, unpack_tag
from holdfast.store.objects.state import Mark, State

DUE, WAKE = "due", "wake"
CREATED, ACTIVE, OPEN_CALLS, FRESH, WORDS, TAGS = "created", "active", "open", "fresh", "words", "tags"

ACTIVITY_SLACK = 60 * SECOND
"""A conversation's activity is at most this much later than its entry says."""
TIMER_SLACK = 60 * SECOND
"""A timer's entry may be this much too early; earlier ones are written anew."""

_MAX = 2**63 - 1


class Pointer(msgspec.Struct, frozen=True):
    """What the name of an entry says: the conversation's folder, and what it is sorted by."""

    path: str
    folder: str
    at: int = 0


def listed_under(owner: str, kind: str) -> str:
    """The folder of one kind of an owner's entries."""
    return f"{owner_folder(owner)}/{kind}"


def tag_folder(owner: str, name: str, value: str) -> str:
    """The folder of the entries of conversations with a tag."""
    return f"{listed_under(owner, TAGS)}/{hashed(name, value)}"


def tag_path(key: ConversationKey, name: str, value: str, tag: str) -> str:
    """The entry of a conversation with a tag; they come by conversation id."""
    return f"{tag_folder(key.owner, name, value)}/{ordered(key.id)}-{_hash(key)}-{tag}"


def words_path(key: ConversationKey, segment: str) -> str:
    """The word list of a segment."""
    return f"{listed_under(key.owner, WORDS)}/{_hash(key)}-{segment}"


def mark_path(key: ConversationKey, kind: str, mark: Mark) -> str:
    """Where a mark's entry is."""
    if kind in (DUE, WAKE):
        return f"{kind}/{_clamped(mark.at):016x}-{_hash(key)}-{mark.tag}"
    return f"{listed_under(key.owner, kind)}/{newest_first(mark.at)}-{_hash(key)}-{mark.tag}"


def newest_first(at: int) -> str:
    """A time in digits that sort the latest first."""
    return f"{_MAX - _clamped(at):016x}"


def pointer(path: str) -> Pointer:
    """Read the name of an entry. In the one of a word list, the rest of the name is the segment's."""
    names = path.rpartition("/")[2].split("-")
    if path.startswith((f"{DUE}/", f"{WAKE}/")):
        return Pointer(path, f"c/{names[1]}", int(names[0], 16))
    match path.split("/")[2]:
        case "words":
            return Pointer(path, f"c/{names[0]}")
        case "tags":
            return Pointer(path, f"c/{names[1]}")
    return Pointer(path, f"c/{names[1]}", _MAX - int(names[0], 16))


def wanted(state: State) -> dict[str, int]:
    """Which entries a conversation needs, and by what they are sorted."""
    header = state.header
    wants = {CREATED: header.created_at, ACTIVE: header.activity}
    if state.calls:
        wants[OPEN_CALLS] = 0
    if due := [call.expires_at for call in state.calls.values() if call.expires_at is not None]:
        wants[DUE] = min(due)
    if header.wake_at is not None:
        wants[WAKE] = max(header.wake_at, header.lease.until if header.lease else 0)
    if state.texts:
        wants[FRESH] = 0
    return wants


def changed_marks(state: State, new_tag: Callable[[str], str]) -> dict[str, Mark | None]:
    """The marks that a conversation has to get or to lose."""
    wants = wanted(state)
    changed: dict[str, Mark | None] = {kind: None for kind in state.marks if kind not in wants}
    for kind, at in wants.items():
        if (mark := state.marks.get(kind)) is None or not _covers(kind, mark.at, at):
            changed[kind] = Mark(at, new_tag(f"{kind} {at}"))
    return changed


def _covers(kind: str, marked: int, at: int) -> bool:
    match kind:
        case "active":
            return marked <= at <= marked + ACTIVITY_SLACK
        case "due" | "wake":
            return marked <= at <= marked + TIMER_SLACK
    return marked == at


def paths_of(state: State, tagged: Rows) -> Iterator[str]:
    """Every entry that belongs to a conversation; ``tagged`` are its rows of that kind."""
    for kind, mark in state.marks.items():
        yield mark_path(state.key, kind, mark)
    for key, value in tagged.items():
        if value is not None:
            name, tag_value = names_of(key)
            yield tag_path(state.key, name, tag_value, unpack_tag(value))
    for segment in state.segments:
        if segment.texts:
            yield words_path(state.key, segment.name)


def _hash(key: ConversationKey) -> str:
    return folder(key).partition("/")[2]


def _clamped(at: int) -> int:
    return max(0, min(at, _MAX))
