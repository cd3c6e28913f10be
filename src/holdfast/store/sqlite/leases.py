"""Leases: jobs of the writer that decide who may run a conversation's agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.clock import microseconds
from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Lease
from holdfast.store.rules import guard
from holdfast.store.sqlite.batch import Batch, Q


def acquire(batch: Batch, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
    """Take a lease that nobody else holds."""
    batch.flush()
    row = batch.execute(Q.lease_state, (key.owner, key.id)).fetchone()
    if row is None:
        raise NotFound(key)
    pk, fences, current, until = row
    now = batch.now()
    ran_out = current is not None and until <= now
    if current not in (None, holder) and not ran_out:
        return None
    return _take(batch, pk, key, fences, holder, now + microseconds(ttl), ran_out)


def claim(batch: Batch, holder: str, agents: Collection[str] | None, limit: int, ttl: float) -> list[Lease]:
    """Take leases of conversations that have work."""
    batch.flush()
    now = batch.now()
    among = "" if agents is None else f" AND agent IN ({', '.join('?' * len(agents))})"
    query = f"{Q.ready}{among} ORDER BY max(wake_at, lease_until), pk LIMIT ?"
    rows = batch.execute(query, (now, *(agents or ()), limit)).fetchall()
    until = now + microseconds(ttl)
    return [
        _take(batch, pk, ConversationKey(owner, id), fences, holder, until, current is not None)
        for pk, owner, id, fences, current in rows
    ]


def renew(batch: Batch, leases: Sequence[Lease], ttl: float) -> list[Lease]:
    """Prolong the leases that still hold."""
    batch.flush()
    now = batch.now()
    until, renewed = now + microseconds(ttl), []
    for lease in leases:
        where = (lease.key.owner, lease.key.id, *_split(lease.fence), lease.holder, now)
        if batch.execute(Q.renew, (until, *where)).rowcount:
            renewed.append(Lease(lease.key, lease.holder, lease.fence, until))
    return renewed


def release(batch: Batch, lease: Lease, defer: float | None) -> None:
    """Give a lease back, if it still holds."""
    batch.flush()
    pk, fences = _split(lease.fence)
    if batch.execute(Q.release, (lease.key.owner, lease.key.id, pk, fences)).rowcount:
        if defer is not None:
            batch.execute(Q.defer, (batch.now() + microseconds(defer), pk))
        batch.forget(lease.key)
        batch.changed.add(lease.key)


def _take(
    batch: Batch, pk: int, key: ConversationKey, fences: int, holder: str, until: int, ran_out: bool
) -> Lease:
    batch.execute(Q.take_lease, (holder, until, ran_out, pk))
    batch.forget(key)
    return Lease(key, holder, guard(pk, fences + 1), until)


def _split(fence: int) -> tuple[int, int]:
    return fence >> 32, fence & 0xFFFFFFFF
