"""
The store on Redis or Valkey: one server, or a cluster.

Each commit is one script, which checks everything before it writes anything. Any number of processes
may use the server; each has one connection that all of its tasks share.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.clock import Clock
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
from holdfast.store.redis import checks, commit, scripts
from holdfast.store.redis.keys import Conversation, Keys, Place
from holdfast.store.redis.leases import Leases
from holdfast.store.redis.news import POLL_SECONDS, News
from holdfast.store.redis.nodes import Nodes
from holdfast.store.redis.reads import Reads
from holdfast.store.redis.scripts import Script
from holdfast.store.redis.scrub import scrub
from holdfast.store.redis.search import Search
from holdfast.store.redis.url import RedisUrl
from holdfast.store.redis.whole import Gone, Whole
from holdfast.store.search import Query

SWEEPS_A_TTL = 24

T = TypeVar("T")


class RedisStore(Store):
    """
    Conversations on a server: ``redis://user:password@host:6379/0``, ``rediss://`` with TLS.

    ``valkey://`` and ``valkeys://`` are the same. ``?cluster=true`` is a cluster. The server must be
    set up to lose nothing, or the URL has to say what it may lose: ``?durability=os``, ``memory``.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self._asked = asked = RedisUrl.parse(url)
        super().__init__(asked.shown, clock=clock)
        self.limits = Limits(
            durability=asked.durability or "disk",
            max_commit=16 << 20,
            watch_delay=2 * POLL_SECONDS,
            search="scan",
            scrub=False,
        )
        self._publish = b"SPUBLISH" if asked.cluster else b"PUBLISH"
        self._touch = b"1" if asked.replicas else b""
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def _now(self) -> bytes:
        """The time for scripts: nothing, so that the server's clock counts, unless a test gave one."""
        return b"" if self._clock is None else b"%d" % self._clock()

    async def _pending_migrations(self) -> list[str]:
        async with self._connected() as nodes:
            await checks.layout(nodes, self._asked, create=False)
        return []

    async def _migrate(self) -> None:
        async with self._connected() as nodes:
            await checks.layout(nodes, self._asked, create=True)

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Nodes]:
        nodes = Nodes(self._asked)
        await nodes.open()
        try:
            yield nodes
        finally:
            await nodes.close()

    async def _open(self) -> None:
        nodes = Nodes(self._asked)
        await nodes.open()
        try:
            durability, scrubs = await checks.promises(nodes, self._asked)
            shards = await checks.layout(nodes, self._asked, create=True)
        except BaseException:
            await nodes.close()
            raise
        self.limits = replace(self.limits, durability=durability, scrub=scrubs)
        self._loop = asyncio.get_running_loop()
        keys = Keys(self._asked.prefix, shards)
        self._nodes, self._keys = nodes, keys
        self._reads = Reads(nodes, keys)
        self._leases = Leases(nodes, keys, self._publish)
        self._whole = Whole(nodes, keys, self._publish)
        self._news = News(self._asked, nodes, keys)
        self._keep(self._remove_left_behind())
        self._sweeper = (
            None if self._asked.ttl is None else self._loop.create_task(self._sweep(self._asked.ttl))
        )

    async def _close(self) -> None:
        await self._news.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._nodes.close()

    def _check_open(self) -> None:
        super()._check_open()
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            # In a process that was forked, no loop runs.
            here = False
        if not here:
            raise StoreError(f"{self.url} was opened in another event loop or process; open a store for each")

    # Writing

    async def _commit(self, change: Change) -> Commit:
        place = self._keys.place(change.key)
        if commit.is_plain(change):
            keys, events = commit.keys_of(place, plain=True), commit.events_of(change)
            return await self._run_commit(place, scripts.APPEND, keys, change, events)
        keys = commit.keys_of(place)
        while True:
            read = await self._read_for_redaction(place, change.net.redacted)
            try:
                arguments = commit.arguments(change, read=read)
                return await self._run_commit(place, scripts.COMMIT, keys, change, arguments)
            except commit.Again:
                continue

    async def _run_commit(
        self,
        place: Conversation,
        script: Script,
        keys: Sequence[bytes],
        change: Change,
        arguments: Sequence[bytes],
    ) -> Commit:
        answer = await self._nodes.run(
            place.shard,
            script,
            keys,
            self._now,
            place.id,
            place.channel,
            place.shard.channel,
            self._publish,
            b"" if change.expect is None else b"%d" % change.expect,
            b"" if change.fence is None else b"%d" % change.fence,
            b"" if change.token is None else change.token.encode(),
            b"" if change.token is None else change.digest(),
            self._touch,
            *arguments,
        )
        return commit.answered(change, answer)

    async def _read_for_redaction(self, place: Place, seqs: Collection[int]) -> commit.Read | None:
        """The events that a redaction replaces: their hashes can't be made on the server."""
        read = None
        for seq in sorted(set(seqs)):
            page = await self._reads.page(place, seq - 1, seq + 1)
            if page is None:
                return None
            if read is None:
                read = commit.Read(page.base.decode(), page.cuts.decode(), page.end, {})
            read.rows.update(enumerate(page.rows, page.first))
        return read

    async def _acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        return await self._leases.acquire(self._now, key, holder, ttl)

    async def _claim(
        self, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]:
        return await self._leases.claim(self._now, holder, agents, limit, ttl)

    async def _renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        return await self._leases.renew(self._now, leases, ttl)

    async def _release(self, lease: Lease, defer: float | None) -> None:
        await self._leases.release(self._now, lease, defer)

    # Whole conversations

    async def _delete(self, key: ConversationKey, when: int | None) -> Erased:
        # Kept: a hidden conversation that nobody removes would stay until the next open.
        return await asyncio.shield(self._keep(self._hide_and_remove(key, when=when)))

    async def _hide_and_remove(
        self, key: ConversationKey, *, when: int | None = None, idle: float | None = None
    ) -> Erased:
        hidden = await self._whole.hide(self._now, key, when=when, idle=idle)
        if hidden is None:
            return Erased()
        gone, erased = hidden
        await self._whole.remove(gone)
        return erased

    async def _fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        new = self._keys.place(change.key)
        while True:
            fork, hidden = await self._whole.begin_fork(self._now, key, change.key, at, sorted(collections))
            revealed = False
            try:
                await self._whole.copy(self._now, key, fork, hidden)
                read = await self._read_for_redaction(hidden, change.net.redacted)
                keys = commit.keys_of(new) + self._whole.fork_keys(key, hidden)
                arguments = commit.arguments(change, read=read, fork=fork)
                await self._run_commit(new, scripts.COMMIT, keys, change, arguments)
                revealed = True
            except commit.Again:
                continue
            finally:
                if not revealed:
                    self._keep(self._whole.remove(Gone(hidden, None)))
            return await self._reads.header(change.key)

    async def _remove_left_behind(self) -> None:
        # What can't be removed now is found again at the next open.
        with contextlib.suppress(StoreError):
            async for gone in self._whole.left_behind(self._now):
                await self._whole.remove(gone)

    async def _sweep(self, ttl: float) -> None:
        """Delete what nobody wrote to for too long, again and again."""
        while True:
            with contextlib.suppress(StoreError):
                await self._delete_idle(ttl)
            await asyncio.sleep(ttl / SWEEPS_A_TTL)

    async def _delete_idle(self, ttl: float) -> None:
        async for key in self._whole.idle(self._now, ttl):
            await asyncio.shield(self._keep(self._hide_and_remove(key, idle=ttl)))

    # Reading

    async def _header(self, key: ConversationKey) -> Header:
        return await self._reads.header(key)

    async def _load(self, key: ConversationKey, records: Sequence[tuple[str, str]]) -> Loaded:
        return await self._reads.load(key, records)

    async def _events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]:
        return await self._reads.events(key, after, before, limit)

    async def _calls(
        self, key: ConversationKey, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]:
        return await self._reads.calls(key, status, call_ids)

    async def _texts(self, key: ConversationKey, after: int, before: int | None) -> dict[int, str]:
        return await self._reads.texts(key, after, before)

    async def _inventory(self, key: ConversationKey) -> tuple[list[str], list[tuple[str, str, str]]]:
        return await self._reads.inventory(key)

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
        return await self._reads.records(key, collection, keys, prefix, after, before, limit, reverse)

    async def _headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        return await self._reads.headers(owner, tag, order, before, limit)

    async def _owners(self, after: str, limit: int) -> list[str]:
        return await self._reads.owners(after, limit)

    async def _open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]:
        return await self._reads.open_calls(owner, status, limit)

    async def _find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        return await self._reads.find(owner, name, value, limit)

    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        return await Search(self._reads, query, limit).run(owner)

    async def _due(self, limit: int) -> list[Call]:
        return await self._reads.due(self._now, limit)

    # Hints and upkeep

    def _watch(
        self, keys: frozenset[ConversationKey] | None
    ) -> contextlib.AbstractAsyncContextManager[AsyncIterator[Notice]]:
        return self._news.watch(keys)

    async def _signal(self, key: ConversationKey, payload: bytes) -> None:
        await self._news.signal(key, payload)

    async def _settle(self) -> None:
        pass

    async def _scrub(self) -> None:
        if self.limits.scrub:
            await scrub(self._nodes)

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something to its end even if nobody waits for it; ``close`` does."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Taken note of, so that a failure nobody waits for is no "exception was never retrieved".
            task.exception()
