"""Leases: who may run a conversation's agent."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from holdfast.clock import microseconds
from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Lease
from holdfast.store.redis import scripts
from holdfast.store.redis.keys import Keys, Shard
from holdfast.store.redis.nodes import Nodes

Candidate = tuple[float, int, ConversationKey, bytes]


class Leases:
    """Leases of the conversations of a store. ``now`` is empty where the server's clock counts."""

    def __init__(self, nodes: Nodes, keys: Keys, publish: bytes) -> None:
        self._nodes = nodes
        self._keys = keys
        self._publish = publish

    async def acquire(self, now: bytes, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        return await self._take(now, key, holder, ttl, b"lease")

    async def claim(
        self, now: bytes, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]:
        leases: list[Lease] = []
        while len(leases) < limit:
            ready = await self._ready(now, agents, limit - len(leases))
            taken = await asyncio.gather(
                *(self._claim(now, key, holder, ttl, agent) for _, _, key, agent in ready)
            )
            leases += [lease for lease in taken if lease is not None]
            if not ready:
                break
        return leases

    async def renew(self, now: bytes, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        renewed = await asyncio.gather(*(self._renew(now, lease, ttl) for lease in leases))
        return [lease for lease in renewed if lease is not None]

    async def release(self, now: bytes, lease: Lease, defer: float | None) -> None:
        place = self._keys.place(lease.key)
        await self._nodes.run(
            place.shard,
            scripts.RELEASE,
            (place.head, place.shard.work),
            now,
            b"%d" % lease.fence,
            b"" if defer is None else b"%d" % microseconds(defer),
            place.member,
            place.channel,
            place.shard.channel,
            self._publish,
        )

    async def _take(
        self, now: bytes, key: ConversationKey, holder: str, ttl: float, *how: bytes
    ) -> Lease | None:
        place = self._keys.place(key)
        answer = await self._nodes.run(
            place.shard,
            scripts.ACQUIRE,
            (place.head, place.shard.work),
            now,
            holder.encode(),
            b"%d" % microseconds(ttl),
            place.member,
            *how,
        )
        if not answer:
            return None
        if answer == [b"NotFound"]:
            raise NotFound(key)
        return Lease(key, holder, int(answer[0]), int(answer[1]))

    async def _claim(
        self, now: bytes, key: ConversationKey, holder: str, ttl: float, agent: bytes
    ) -> Lease | None:
        try:
            return await self._take(now, key, holder, ttl, b"claim", agent)
        except NotFound:
            return None

    async def _ready(self, now: bytes, agents: Collection[str] | None, limit: int) -> list[Candidate]:
        wanted = (b"all",) if agents is None else (b"some", *(agent.encode() for agent in agents))
        pages = await asyncio.gather(
            *(self._ready_in(shard, now, wanted, limit) for shard in self._keys.shards)
        )
        return sorted(candidate for page in pages for candidate in page)[:limit]

    async def _ready_in(
        self, shard: Shard, now: bytes, wanted: Sequence[bytes], limit: int
    ) -> list[Candidate]:
        ready: list[Candidate] = []
        start = 0
        while len(ready) < limit:
            rows, start = await self._nodes.run(
                shard,
                scripts.READY,
                (shard.work,),
                now,
                b"%d" % (limit - len(ready)),
                b"%d" % start,
                shard.heads,
                *wanted,
            )
            for since, base, owner, id, agent in rows:
                key = ConversationKey(owner.decode(), id.decode())
                ready.append((float(since), int(base), key, agent))
            if not start:
                break
        return ready

    async def _renew(self, now: bytes, lease: Lease, ttl: float) -> Lease | None:
        place = self._keys.place(lease.key)
        answer = await self._nodes.run(
            place.shard,
            scripts.RENEW,
            (place.head, place.shard.work),
            now,
            b"%d" % lease.fence,
            b"%d" % microseconds(ttl),
            place.member,
        )
        return Lease(lease.key, answer[0].decode(), lease.fence, int(answer[1])) if answer else None
