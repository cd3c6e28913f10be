"""Leases: each is one statement that compares and sets, by the server's clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace

from holdfast.clock import microseconds
from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Lease
from holdfast.store.postgres.kernel import Kernel
from holdfast.store.rules import guard
from holdfast.store.sql.database import Database, bounded, split


class Leases:
    """Who may run a conversation's agent."""

    def __init__(self, database: Database, kernel: Kernel, queries: SimpleNamespace) -> None:
        self._fetch = database.fetch
        self._now = kernel.now
        self._q = queries

    async def acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        place = {"owner": key.owner, "id": key.id}
        rows = await self._fetch(
            self._q.acquire, **place, holder=holder, ttl=microseconds(ttl), now=self._now()
        )
        if not rows:
            if not await self._fetch(self._q.exists, **place):
                raise NotFound(key)
            return None
        [(pk, fences, until)] = rows
        return Lease(key, holder, guard(pk, fences), until)

    async def claim(self, holder: str, agents: Collection[str] | None, limit: int, ttl: float) -> list[Lease]:
        rows = await self._fetch(
            self._q.claim,
            holder=holder,
            agents=None if agents is None else list(agents),
            limit=bounded(limit),
            ttl=microseconds(ttl),
            now=self._now(),
        )
        return [
            Lease(ConversationKey(owner, id), holder, guard(pk, fences), until)
            for owner, id, pk, fences, until in rows
        ]

    async def renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        if not leases:
            return []
        rows = await self._fetch(
            self._q.renew,
            owner=[lease.key.owner for lease in leases],
            id=[lease.key.id for lease in leases],
            pk=[split(lease.fence)[0] for lease in leases],
            fence=[split(lease.fence)[1] for lease in leases],
            ttl=microseconds(ttl),
            now=self._now(),
        )
        renewed = ((leases[i - 1], holder, until) for i, holder, until in rows)
        return [Lease(lease.key, holder, lease.fence, until) for lease, holder, until in renewed]

    async def release(self, lease: Lease, defer: float | None) -> bool:
        """Give a lease back; True if it was still held."""
        pk, fence = split(lease.fence)
        rows = await self._fetch(
            self._q.release,
            owner=lease.key.owner,
            id=lease.key.id,
            pk=pk,
            fence=fence,
            defer=None if defer is None else microseconds(defer),
            now=self._now(),
        )
        return bool(rows)
