"""
Names of keys.

Everything of an owner lies in one hash slot, so one script can write all of it, and the store runs on
a cluster: each key begins with ``{prefix:shard}``. Names inside a key are told apart by their length
or by NUL, which they can't contain, so no two of them run together.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from redis.crc import key_slot

from holdfast.ids import ConversationKey


class Shard:
    """The keys that all owners of a shard share."""

    __slots__ = ("channel", "due", "heads", "hidden", "number", "numbers", "owners", "slot", "tag", "work")

    def __init__(self, prefix: bytes, number: int) -> None:
        self.number = number
        self.tag = tag = b"{%b:%d}" % (prefix, number)
        self.slot = key_slot(tag)
        self.owners = tag + b"owners"
        self.numbers = tag + b"numbers"
        self.hidden = tag + b"hidden"
        self.due = tag + b"due"
        self.work = tag + b"work"
        self.channel = tag + b"news"
        self.heads = tag + b"head:"


class Owner:
    """The keys of an owner's indexes."""

    __slots__ = ("active", "born", "heads", "shard", "tags", "waiting")

    def __init__(self, shard: Shard, owner: bytes) -> None:
        self.shard = shard
        self.active = b"%bactive:%b" % (shard.tag, owner)
        self.born = b"%bborn:%b" % (shard.tag, owner)
        self.tags = b"%btags:%b" % (shard.tag, owner)
        self.waiting = b"%bwaiting:%b" % (shard.tag, owner)
        self.heads = b"%b%d:%b:" % (shard.heads, len(owner), owner)


class Place:
    """The keys of one conversation. A hidden one has a name that no key of a conversation can have."""

    __slots__ = ("channel", "head", "log", "name", "names", "open", "shard")

    def __init__(self, shard: Shard, name: bytes) -> None:
        self.shard = shard
        self.name = name
        self.head = shard.heads + name
        self.log = b"%blog:%b" % (shard.tag, name)
        self.names = b"%bnames:%b" % (shard.tag, name)
        self.open = b"%bopen:%b" % (shard.tag, name)
        self.channel = b"%b:%b" % (shard.channel, name)


class Conversation(Place):
    """A place that has an owner and an id. ``member`` is how indexes of the shard call it."""

    __slots__ = ("id", "member", "of", "owner")

    def __init__(self, shard: Shard, key: ConversationKey) -> None:
        self.owner, self.id = key.owner.encode(), key.id.encode()
        super().__init__(shard, b"%d:%b:%b" % (len(self.owner), self.owner, self.id))
        self.of = Owner(shard, self.owner)
        self.member = self.owner + b"\0" + self.id


class Keys:
    """All keys of a store."""

    def __init__(self, prefix: str, shards: int) -> None:
        self.shards = [Shard(prefix.encode(), number) for number in range(shards)]
        self.place = lru_cache(4096)(self._place)

    def owner(self, owner: str) -> Owner:
        """Where an owner's indexes are."""
        return Owner(self._shard(owner), owner.encode())

    def _place(self, key: ConversationKey) -> Conversation:
        return Conversation(self._shard(key.owner), key)

    def _shard(self, owner: str) -> Shard:
        return self.shards[crc32(owner.encode()) % len(self.shards)]


def meta_key(prefix: str) -> bytes:
    """Where a store says how it is laid out."""
    return f"{prefix}:meta".encode()


def key_of(name: bytes) -> ConversationKey:
    """The conversation that a place's name stands for."""
    length, _, rest = name.partition(b":")
    end = int(length)
    return ConversationKey(rest[:end].decode(), rest[end + 1 :].decode())
