"""Leases: entries of the same chain as everything else, and a fence is the number of its entry."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from holdfast.clock import Clock, microseconds
from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Lease
from holdfast.store.objects.chain import Attempt, Chain, Draft, Step
from holdfast.store.objects.index import WAKE
from holdfast.store.objects.lists import Lists, Ranked
from holdfast.store.objects.roots import Absent
from holdfast.store.objects.state import State
from holdfast.store.rules import guard


class Leases:
    """Who may run a conversation's agent."""

    def __init__(self, chain: Chain, lists: Lists, clock: Clock) -> None:
        self._chain = chain
        self._lists = lists
        self._now = clock

    async def acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        async def decide(head: State | Absent, attempt: Attempt) -> Step[Lease | None]:
            if isinstance(head, Absent):
                raise NotFound(key)
            now, held = self._now(), head.header.lease
            ran_out = held is not None and held.until <= now
            if held is not None and held.holder != holder and not ran_out:
                return Step(None)
            lease = Lease(key, holder, guard(head.incarnation, head.n + 1), now + microseconds(ttl))
            header = replace(head.header, lease=lease, takeovers=head.header.takeovers + ran_out)
            return Step(lease, Draft(header))

        return await self._chain.extend(key, decide)

    async def claim(self, holder: str, agents: Collection[str] | None, limit: int, ttl: float) -> list[Lease]:
        now = self._now()

        def rank(state: State) -> Iterable[Ranked[ConversationKey]]:
            header = state.header
            if header.wake_at is not None and (agents is None or header.agent in agents):
                since = max(header.wake_at, header.lease.until if header.lease else 0)
                if since <= now:
                    yield (since, state.incarnation, state.key), state.key

        leases: list[Lease] = []
        async for key in self._lists.in_order_of_time(WAKE, now, rank):
            lease = await self._claim(key, holder, agents, ttl)
            if lease is not None:
                leases.append(lease)
            if len(leases) == limit:
                break
        return leases

    async def _claim(
        self, key: ConversationKey, holder: str, agents: Collection[str] | None, ttl: float
    ) -> Lease | None:
        """Take the lease of a conversation that still has work when its turn comes."""

        async def decide(head: State | Absent, attempt: Attempt) -> Step[Lease | None]:
            if isinstance(head, Absent):
                return Step(None)
            now, header = self._now(), head.header
            free = header.lease is None or header.lease.until <= now
            ready = header.wake_at is not None and header.wake_at <= now
            if not free or not ready or (agents is not None and header.agent not in agents):
                return Step(None)
            lease = Lease(key, holder, guard(head.incarnation, head.n + 1), now + microseconds(ttl))
            takeovers = header.takeovers + (header.lease is not None)
            return Step(lease, Draft(replace(header, lease=lease, takeovers=takeovers)))

        return await self._chain.extend(key, decide)

    async def renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        renewed = await asyncio.gather(*(self._renew(lease, ttl) for lease in leases))
        return [lease for lease in renewed if lease is not None]

    async def _renew(self, lease: Lease, ttl: float) -> Lease | None:
        async def decide(head: State | Absent, attempt: Attempt) -> Step[Lease | None]:
            held, now = None if isinstance(head, Absent) else head.header.lease, self._now()
            if isinstance(head, Absent) or held is None or held.fence != lease.fence or held.until <= now:
                return Step(None)
            longer = replace(held, until=now + microseconds(ttl))
            return Step(longer, Draft(replace(head.header, lease=longer)))

        return await self._chain.extend(lease.key, decide)

    async def release(self, lease: Lease, defer: float | None) -> bool:
        async def decide(head: State | Absent, attempt: Attempt) -> Step[bool]:
            held = None if isinstance(head, Absent) else head.header.lease
            if isinstance(head, Absent) or held is None or held.fence != lease.fence:
                return Step(False)
            wake = head.header.wake_at if defer is None else self._now() + microseconds(defer)
            return Step(True, Draft(replace(head.header, lease=None, wake_at=wake)))

        return await self._chain.extend(lease.key, decide)
