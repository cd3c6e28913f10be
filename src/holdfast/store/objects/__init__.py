"""
The store without a server: conversations as objects in S3, Google or Azure storage, or a directory.

A commit is one object, created if nobody has its number yet, so the storage itself picks the
winner. For archives and for functions that run now and then: higher latency, nothing to operate.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from typing import Any, TypeVar

from holdfast.clock import Clock, system_clock
from holdfast.errors import StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import (
    Call,
    CallStatus,
    Commit,
    Erased,
    Event,
    Found,
    Header,
    Hit,
    Lease,
    Loaded,
    Notice,
    Record,
)
from holdfast.store.backend import Cursor, Limits, Order
from holdfast.store.change import Change
from holdfast.store.contract import Store
from holdfast.store.objects.address import Address
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.chain import Attempt, Chain, Step
from holdfast.store.objects.clearing import Clearing
from holdfast.store.objects.deciding import decide
from holdfast.store.objects.heads import Heads
from holdfast.store.objects.leases import Leases
from holdfast.store.objects.lists import Lists
from holdfast.store.objects.merging import Merger
from holdfast.store.objects.names import folder
from holdfast.store.objects.opening import open_bucket
from holdfast.store.objects.reads import Reads
from holdfast.store.objects.roots import Absent
from holdfast.store.objects.searching import Searches
from holdfast.store.objects.segments import Segments
from holdfast.store.objects.state import State
from holdfast.store.objects.sweeping import Sweeper
from holdfast.store.objects.whole import Whole
from holdfast.store.search import Query
from holdfast.store.url import hide_password
from holdfast.store.watchers import Watchers

T = TypeVar("T")
Look = tuple[str, int] | None

MAX_COMMIT = 16 << 20
SWEEP_AFTER = 24 * 3600.0
"""Seconds after which a process that runs for long looks through everything."""
_SWEEP_CHECK = 600.0
_LINGER = 0.5


class ObjectsStore(Store):
    """
    Conversations as objects: ``s3://bucket/prefix``, ``gs://…``, ``az://…``, ``file:///directory``.

    Credentials come from the environment. Parameters: ``endpoint``, ``region``, ``allow_http``,
    ``timeout`` and ``poll`` in seconds, ``scrub=true`` for a bucket that keeps nothing of what is
    removed, and for a directory ``durability`` (``disk`` or ``os``).
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(hide_password(url), clock=clock)
        self._address = Address.parse(url)
        self._now = clock or system_clock
        self.limits = Limits(
            durability=self._address.durability,
            max_commit=MAX_COMMIT,
            watch_delay=2 * self._address.poll,
            search="scan",
            signals="process",
            scrub=self._address.scrub,
        )
        self._watchers = Watchers()
        self._seen: dict[ConversationKey, Look] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._upkeep: set[asyncio.Task[None]] = set()
        self._lasting: set[asyncio.Task[None]] = set()
        self._poller: asyncio.Task[None] | None = None

    async def _pending_migrations(self) -> list[str]:
        return []

    async def _migrate(self) -> None:
        await open_bucket(self._bucket(), self.url, self._address.service)

    def _bucket(self) -> Bucket:
        return self._address.connect()

    async def _open(self) -> None:
        bucket = self._bucket()
        marker = await open_bucket(bucket, self.url, self._address.service)
        self._loop = asyncio.get_running_loop()
        self._heads = Heads(bucket, self._now, marker.trust)
        self._segments = Segments(bucket)
        clearing = Clearing(bucket, self._heads)
        self._merger = Merger(bucket, self._heads, self._segments, clearing, self._keep_quiet)
        self._chain = Chain(bucket, self._heads, self._keep_quiet, self._merger.grown)
        self._reads = Reads(self._heads, self._segments)
        self._lists = Lists(bucket, self._heads, self._reads)
        self._leases = Leases(self._chain, self._lists, self._now)
        self._searches = Searches(bucket, self._heads, self._segments, self._reads)
        self._whole = Whole(
            bucket, self._heads, self._segments, clearing, self._chain, self._merger, self._reads, self._now
        )
        self._sweeper = Sweeper(bucket, self._heads, self._segments, clearing, self._merger)
        self._lasting.add(self._loop.create_task(self._sweep_now_and_then()))

    async def _close(self) -> None:
        self._watchers.close()
        for task in self._lasting:
            task.cancel()
        await asyncio.gather(*self._lasting, return_exceptions=True)
        self._lasting.clear()
        self._poller = None
        while self._tasks or self._upkeep:
            await asyncio.gather(*self._tasks, *self._upkeep, return_exceptions=True)

    def _check_open(self) -> None:
        super()._check_open()
        if self._loop is not asyncio.get_running_loop():
            raise StoreError(f"{self.url} was opened in another event loop; open a store for each")

    # Writing

    async def _commit(self, change: Change) -> Commit:
        async def step(head: State | Absent, attempt: Attempt) -> Step[Commit]:
            return await decide(self._segments, head, change, attempt, self._now())

        commit = await self._done(self._chain.extend(change.key, step))
        self._watchers.changed([change.key])
        return commit

    async def _acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        return await self._done(self._leases.acquire(key, holder, ttl))

    async def _claim(
        self, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]:
        return await self._done(self._leases.claim(holder, agents, limit, ttl))

    async def _renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        return await self._done(self._leases.renew(leases, ttl))

    async def _release(self, lease: Lease, defer: float | None) -> None:
        if await self._done(self._leases.release(lease, defer)):
            self._watchers.changed([lease.key])

    async def _delete(self, key: ConversationKey, when: int | None) -> Erased:
        erased = await self._done(self._whole.delete(key, when))
        self._watchers.changed([key])
        return erased

    async def _fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        header = await self._done(self._whole.fork(key, change, at, collections))
        self._watchers.changed([change.key])
        return header

    # Reading

    async def _header(self, key: ConversationKey) -> Header:
        return (await self._heads.state(key)).header

    async def _load(self, key: ConversationKey, records: Sequence[tuple[str, str]]) -> Loaded:
        return await self._reads.of(key, lambda state: self._reads.load(state, records))

    async def _events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]:
        return await self._reads.of(key, lambda state: self._reads.events(state, after, before, limit))

    async def _calls(
        self, key: ConversationKey, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]:
        return await self._reads.of(key, lambda state: self._reads.calls(state, status, call_ids))

    async def _texts(self, key: ConversationKey, after: int, before: int | None) -> dict[int, str]:
        return await self._reads.of(key, lambda state: self._reads.texts(state, after, before))

    async def _inventory(self, key: ConversationKey) -> tuple[set[str], list[tuple[str, str, str]]]:
        return await self._reads.of(key, self._reads.inventory)

    async def _records(
        self,
        key: ConversationKey,
        collection: str,
        keys: Collection[str] | None,
        prefix: str,
        after: str | None,
        before: str | None,
        limit: int | None,
        reverse: bool,
    ) -> list[Record]:
        return await self._reads.of(
            key,
            lambda state: self._reads.records(state, collection, keys, prefix, after, before, limit, reverse),
        )

    async def _headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        return await self._lists.headers(owner, tag, order, before, limit)

    async def _owners(self, after: str, limit: int) -> list[str]:
        return await self._lists.owners(after, limit)

    async def _open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]:
        return await self._lists.open_calls(owner, status, limit)

    async def _find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        return await self._lists.find(owner, name, value, limit)

    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        return await self._searches.search(owner, query, limit)

    async def _due(self, limit: int) -> list[Call]:
        return await self._lists.due(self._now(), limit)

    # Hints

    @contextlib.asynccontextmanager
    async def _watch(self, keys: frozenset[ConversationKey] | None) -> AsyncIterator[AsyncIterator[Notice]]:
        async with self._watchers.watch(keys) as notices:
            self._seen |= await self._looks(keys or ())
            if self._poller is None or self._poller.done():
                self._poller = self._loop.create_task(self._poll())
                self._lasting.add(self._poller)
                self._poller.add_done_callback(self._lasting.discard)
            yield notices

    async def _signal(self, key: ConversationKey, payload: bytes) -> None:
        self._watchers.signal(key, payload)

    async def _looks(
        self, keys: Collection[ConversationKey]
    ) -> dict[ConversationKey, tuple[str, int] | None]:
        """What tells one moment of some conversations from another."""
        found = await asyncio.gather(*(self._heads.fresh(folder(key)) for key in keys))
        looks = (None if isinstance(state, Absent) else (state.place.uid, state.n) for state in found)
        return dict(zip(keys, looks, strict=True))

    async def _poll(self) -> None:
        """Notice what other processes do, for as long as somebody watches."""
        while self._watchers:
            await asyncio.sleep(self._address.poll)
            # A service that does not answer for a moment is asked again in the next round.
            with contextlib.suppress(StoreError):
                looks = await self._looks(self._watchers.keys)
                changed = [key for key, look in looks.items() if look != self._seen.get(key)]
                self._seen = looks
                self._watchers.changed(changed)
            if self._watchers.any:
                # To know more, every conversation would have to be looked at.
                self._watchers.changed([None])

    # Upkeep

    async def _settle(self) -> None:
        await self._done(self._settled())

    async def _settled(self) -> None:
        await self._upkeep_done()
        await self._merger.settle()

    async def _scrub(self) -> None:
        await self._done(self._scrubbed())

    async def _scrubbed(self) -> None:
        await self._upkeep_done()
        await self._sweeper.sweep()

    async def _upkeep_done(self) -> None:
        while self._upkeep:
            await asyncio.gather(*self._upkeep)

    async def _sweep_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_CHECK * random.uniform(0.5, 1.5))
            with contextlib.suppress(StoreError):
                if await self._sweeper.overdue(SWEEP_AFTER):
                    await self._sweeper.sweep()

    async def _done(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry something out to its end even if nobody waits for it; ``close`` does."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # What is nearly done should not come as a surprise after what is done next.
            await asyncio.wait([task], timeout=_LINGER)
            raise

    def _keep_quiet(self, work: Coroutine[Any, Any, None]) -> None:
        """Run upkeep that is done again later if it fails."""

        async def quietly() -> None:
            with contextlib.suppress(StoreError):
                await work

        task = self._loop.create_task(quietly())
        self._upkeep.add(task)
        task.add_done_callback(self._upkeep.discard)
