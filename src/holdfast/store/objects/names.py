"""
Where things are: names of objects that are safe on every store, whatever the ids look like.

Names that come from people are hashed, so none can lead out of its folder, meet another one or be
too long; the originals are inside the objects. Where a listing should come in order, the beginning
of the original stands before the hash, as hexadecimal digits, which sort like the bytes they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Self

import msgspec

from holdfast.ids import ConversationKey
from holdfast.store.objects.bucket import Stat

MARKER = "holdfast"
CONVERSATIONS = "c"
OWNERS = "o"
PROBES = "probe"
ROOTS = "current"
TEMPORARY = "tmp"
SWEPT = "swept"

_ORDERED = 64
_DIGITS = 12
_LIMIT = 10**_DIGITS


def folder(key: ConversationKey) -> str:
    """The folder of a conversation."""
    return f"{CONVERSATIONS}/{hashed(key.owner, key.id)}"


def owner_folder(owner: str) -> str:
    """The folder of an owner's indexes."""
    return f"{OWNERS}/{ordered(owner)}-{hashed(owner)}"


def ordered(name: str) -> str:
    """The beginning of a name, in digits that sort as names do."""
    return name.encode()[:_ORDERED].hex()


def hashed(*names: str) -> str:
    """A name for names: the same for the same ones, and no other."""
    digest = blake2b(digest_size=20)
    for name in names:
        raw = name.encode()
        digest.update(len(raw).to_bytes(4, "big"))
        digest.update(raw)
    return digest.hexdigest()


class Place(msgspec.Struct, frozen=True):
    """
    Where one incarnation of a conversation is.

    Roots sort before it, and in it the newest checkpoint comes first: a page of a listing has
    what a reader needs, however much lies behind it.
    """

    folder: str
    uid: str

    @property
    def top(self) -> str:
        return f"{self.folder}/i{self.uid}"

    @property
    def closed(self) -> str:
        """The mark that the incarnation has ended."""
        return f"{self.top}/closed"

    @property
    def logs(self) -> str:
        return f"{self.top}/log"

    @property
    def checkpoints(self) -> str:
        return f"{self.top}/ckpt"

    @property
    def segments(self) -> str:
        return f"{self.top}/seg"

    def log(self, n: int) -> str:
        return f"{self.logs}/{n:0{_DIGITS}d}"

    def checkpoint(self, version: int) -> str:
        return f"{self.checkpoints}/{_LIMIT - version:0{_DIGITS}d}"

    def segment(self, name: str) -> str:
        return f"{self.segments}/{name}"


def roots(folder: str) -> str:
    """The folder of a conversation's roots."""
    return f"{folder}/{ROOTS}"


def root(folder: str, name: str) -> str:
    """One root: it says which incarnation came after the one it is named for."""
    return f"{roots(folder)}/{name}"


def segment_name(version: int, tag: str) -> str:
    """The name of a segment that a checkpoint of this version is the first to have."""
    return f"{version:0{_DIGITS}d}-{tag}"


class Parts(msgspec.Struct):
    """What a listing shows of an incarnation, with the time at which each object was written."""

    closed: int | None = None
    checkpoints: dict[int, int] = msgspec.field(default_factory=dict)
    logs: dict[int, int] = msgspec.field(default_factory=dict)
    blank: set[int] = msgspec.field(default_factory=set)
    segments: dict[str, int] = msgspec.field(default_factory=dict)

    def version_of(self, segment: str) -> int:
        """The checkpoint that a segment was made for."""
        return int(segment.partition("-")[0])


class Listing(msgspec.Struct):
    """What a listing shows of a conversation: its roots and its incarnations."""

    roots: dict[str, int] = msgspec.field(default_factory=dict)
    incarnations: dict[str, Parts] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, stats: Iterable[Stat]) -> Self:
        """What a listing of a conversation's folder, or of a part of it, shows."""
        listing = cls()
        for stat in stats:
            listing._add(stat.path, stat.modified, stat.size)
        return listing

    def _add(self, path: str, modified: int, size: int) -> None:
        _, _, kind, *rest = path.split("/")
        if kind == ROOTS:
            self.roots[rest[0]] = modified
            return
        parts = self.incarnations.setdefault(kind[1:], Parts())
        match rest:
            case ["closed"]:
                parts.closed = modified
            case ["ckpt", name]:
                parts.checkpoints[_LIMIT - int(name)] = modified
            case ["log", name]:
                parts.logs[int(name)] = modified
                if not size:
                    parts.blank.add(int(name))
            case ["seg", name]:
                parts.segments[name] = modified
