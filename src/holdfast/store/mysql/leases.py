"""Leases: compared and set under the row's lock, by the server's clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace

from holdfast.clock import microseconds
from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Lease
from holdfast.store.mysql.driver import BEGIN, COMMIT, Pool, Session
from holdfast.store.mysql.kernel import Kernel
from holdfast.store.mysql.literals import written
from holdfast.store.rules import guard
from holdfast.store.sql.database import bounded, digest, split


class Leases:
    """Who may run a conversation's agent."""

    def __init__(self, pool: Pool, kernel: Kernel, queries: SimpleNamespace) -> None:
        self._pool = pool
        self._now = kernel.now
        self._q = queries

    async def acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        place = digest(key.owner, key.id)
        acquire = written(self._q.acquire, place=place, holder=holder, ttl=microseconds(ttl), now=self._now())
        _, taken, found, _ = await self._pool.write(
            BEGIN, acquire, written(self._q.lease, place=place), COMMIT
        )
        if not found.rows:
            raise NotFound(key)
        if not taken.affected_rows:
            return None
        [(pk, fences, until)] = found.rows
        return Lease(key, holder, guard(pk, fences), until)

    async def claim(self, holder: str, agents: Collection[str] | None, limit: int, ttl: float) -> list[Lease]:
        if agents is not None and not agents:
            return []
        values = {"agents": None if agents is None else list(agents), "limit": bounded(limit)}

        async def work(session: Session) -> list[Lease]:
            [ready] = await session.run(written(self._q.ready, **values, now=self._now()))
            if not ready.rows:
                return []
            until = ready.rows[0][4] + microseconds(ttl)
            pks = [row[0] for row in ready.rows]
            await session.finish(written(self._q.claim, pks=pks, holder=holder, until=until))
            return [
                Lease(ConversationKey(owner, id), holder, guard(pk, fences + 1), until)
                for pk, owner, id, fences, _ in ready.rows
            ]

        return await self._pool.transaction(work)

    async def renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        if not leases:
            return []
        places = [digest(lease.key.owner, lease.key.id) for lease in leases]

        async def work(session: Session) -> list[Lease]:
            locked, clock = await session.run(
                written(self._q.look, places=places), written(self._q.now, now=self._now())
            )
            now = clock.rows[0][0]
            held = {
                (row[0], guard(row[1], row[6])): row[7]
                for row in locked.rows
                if row[7] is not None and row[15] > now
            }
            kept = [
                (lease, held[place, lease.fence])
                for place, lease in zip(places, leases, strict=True)
                if (place, lease.fence) in held
            ]
            until = now + microseconds(ttl)
            if kept:
                pks = sorted({split(lease.fence)[0] for lease, _ in kept})
                await session.finish(written(self._q.renew, pks=pks, until=until))
            return [Lease(lease.key, holder, lease.fence, until) for lease, holder in kept]

        return await self._pool.transaction(work)

    async def release(self, lease: Lease, defer: float | None) -> bool:
        """Give a lease back; True if it was still held."""
        pk, fence = split(lease.fence)
        [released] = await self._pool.write(
            written(
                self._q.release,
                place=digest(lease.key.owner, lease.key.id),
                pk=pk,
                fence=fence,
                defer=None if defer is None else microseconds(defer),
                now=self._now(),
            )
        )
        return bool(released.affected_rows)
