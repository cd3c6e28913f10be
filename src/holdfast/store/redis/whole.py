"""
Deleting and forking whole conversations.

A conversation loses its name first, or does not have one yet; the rest is done bit by bit between
the others' commits. What a crash leaves is found in the shard's list of hidden ones.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import msgspec

from holdfast.clock import SECOND, microseconds
from holdfast.errors import AlreadyExists, InvalidOp, NotFound, StaleHeader
from holdfast.ids import ConversationKey
from holdfast.model.records import Erased
from holdfast.store.redis import scripts
from holdfast.store.redis.commit import Again, Fork
from holdfast.store.redis.keys import Keys, Owner, Place, Shard
from holdfast.store.redis.nodes import Nodes

HIDDEN_FOR = b"%d" % (60 * SECOND)
COPY_BYTES = b"4000000"
_IDLE_A_PAGE = 100


class Gone(msgspec.Struct, frozen=True):
    """A conversation without a name, and who had it; a fork had nobody yet."""

    place: Place
    owner: str | None


class Whole:
    """Whole conversations of a store. ``now`` is empty where the server's clock counts."""

    def __init__(self, nodes: Nodes, keys: Keys, publish: bytes) -> None:
        self._nodes = nodes
        self._keys = keys
        self._publish = publish

    async def hide(
        self, now: bytes, key: ConversationKey, *, when: int | None = None, idle: float | None = None
    ) -> tuple[Gone, Erased] | None:
        """Take a conversation's name away, if it has that revision and was idle for that many seconds."""
        place = self._keys.place(key)
        shard, of, hidden = place.shard, place.of, hidden_place(place.shard)
        answer = await self._nodes.run(
            shard,
            scripts.HIDE,
            (
                *(place.head, place.log, place.names, place.open, of.active, of.born),
                *(shard.owners, shard.numbers, shard.work, shard.hidden),
                *(hidden.head, hidden.log, hidden.names, hidden.open),
            ),
            now,
            place.owner,
            place.id,
            hidden.name,
            b"" if when is None else b"%d" % when,
            b"" if idle is None else b"%d" % microseconds(idle),
            place.channel,
            shard.channel,
            self._publish,
        )
        if not answer:
            return None
        if len(answer) == 1:
            raise StaleHeader(key, expected=when or 0, actual=int(answer[0]))
        return Gone(hidden, key.owner), Erased(1, *map(int, answer))

    async def remove(self, gone: Gone) -> None:
        """Remove what is left of a hidden conversation, slice by slice."""
        place, shard = gone.place, gone.place.shard
        of = Owner(shard, (gone.owner or "").encode())
        keys = (place.head, place.log, place.names, place.open, shard.hidden, of.tags, of.waiting, shard.due)
        while await self._nodes.run(shard, scripts.REMOVE, keys, place.name):
            pass

    async def left_behind(self, now: bytes) -> AsyncIterator[Gone]:
        """What crashed deletes and forks have left."""
        shards = self._keys.shards
        left = await asyncio.gather(
            *(self._nodes.run(shard, scripts.LEFT, (shard.hidden,), now) for shard in shards)
        )
        for shard, names in zip(shards, left, strict=True):
            for name in names:
                place = Place(shard, name)
                owner = await self._nodes.call(shard, b"HGET", place.head, b"owner")
                yield Gone(place, owner and owner.decode())

    async def idle(self, now: bytes, ttl: float) -> AsyncIterator[ConversationKey]:
        """Conversations that nothing was written to for that many seconds, of all owners."""
        for shard in self._keys.shards:
            upto = b"%d" % (int(now or await self._time(shard)) - microseconds(ttl))
            last = b"-"
            while owners := await self._nodes.call(
                shard, b"ZRANGEBYLEX", shard.owners, last, b"+", b"LIMIT", b"0", b"%d" % _IDLE_A_PAGE
            ):
                last = b"(" + owners[-1]
                for owner in owners:
                    active = Owner(shard, owner).active
                    for id in await self._nodes.call(shard, b"ZRANGEBYSCORE", active, b"-inf", upto):
                        yield ConversationKey(owner.decode(), id.decode())

    async def begin_fork(
        self, now: bytes, key: ConversationKey, new: ConversationKey, at: int | None, collections: list[str]
    ) -> tuple[Fork, Place]:
        """Make the hidden copy that the events go to."""
        source, shard = self._keys.place(key), self._keys.place(key).shard
        hidden = hidden_place(shard)
        answer = await self._nodes.run(
            shard,
            scripts.FORK,
            (source.head, self._keys.place(new).head, hidden.head, shard.hidden),
            now,
            b"" if at is None else b"%d" % at,
            source.id,
            hidden.name,
            HIDDEN_FOR,
        )
        match answer:
            case [b"NotFound"]:
                raise NotFound(key)
            case [b"NoPlace", last]:
                raise InvalidOp(f"{key} can't be forked at seq {at}: its log ends at {int(last)}")
            case [b"AlreadyExists"]:
                raise AlreadyExists(new)
        base, at_text, cuts = answer
        return Fork(base.decode(), cuts.decode(), int(at_text), hidden.name.decode(), collections), hidden

    async def copy(self, now: bytes, key: ConversationKey, fork: Fork, hidden: Place) -> None:
        """
        Copy the events, and the records as far as they do not change meanwhile.

        Raises:
            NotFound: The source was deleted.
            Again: The copy was taken for what a crash had left.
        """
        source, shard = self._keys.place(key), hidden.shard
        keys = (source.head, source.log, source.names, hidden.head, hidden.log, hidden.names, shard.hidden)
        first, done = b"1", 0
        while not done:
            answer = await self._nodes.run(
                shard,
                scripts.SLICE,
                keys,
                now,
                fork.base.encode(),
                first,
                b"%d" % fork.at,
                hidden.name,
                HIDDEN_FOR,
                COPY_BYTES,
                *(collection.encode() for collection in fork.collections),
            )
            match answer:
                case [b"NotFound"]:
                    raise NotFound(key)
                case [b"Again"]:
                    raise Again
            first, done = answer

    def fork_keys(self, key: ConversationKey, hidden: Place) -> list[bytes]:
        """The keys that the commit of a fork needs beside its own."""
        source = self._keys.place(key)
        return [hidden.head, hidden.log, hidden.names, source.head, source.names, hidden.shard.hidden]

    async def _time(self, shard: Shard) -> bytes:
        seconds, micros = await self._nodes.call(shard, b"TIME")
        return b"%d" % (int(seconds) * SECOND + int(micros))


def hidden_place(shard: Shard) -> Place:
    """A name that nobody knows, and that no conversation can have: those begin with a length."""
    return Place(shard, b":" + os.urandom(12).hex().encode())
