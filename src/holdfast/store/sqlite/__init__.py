"""
The embedded store: one SQLite file, good for production on one machine.

Any number of processes may use the file. Commits go through one writer thread a process, which
groups whatever is queued into one transaction; readers use the write-ahead log beside it and
never wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.clock import Clock, system_clock
from holdfast.errors import InvalidInput, StoreError
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
from holdfast.store.search import Query
from holdfast.store.sqlite import commit, index, leases, reads, schema, whole
from holdfast.store.sqlite.batch import Batch
from holdfast.store.sqlite.faults import translated
from holdfast.store.sqlite.writer import Writer
from holdfast.store.url import StoreUrl
from holdfast.store.watchers import Watchers

T = TypeVar("T")

POLL_SECONDS = 0.025
SMALL_READ = 200
_READERS = 4


class SQLiteStore(Store):
    """
    Conversations in a file: ``sqlite:///relative.db``, ``sqlite:////absolute.db``.

    ``?durability=disk`` (the default) syncs each commit, so that it survives loss of power;
    ``?durability=os`` leaves that to the system, and a commit survives a crash of the process.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        parsed = StoreUrl.parse(url, params=frozenset(("durability",)))
        durability = parsed.params.get("durability", "disk")
        if durability not in ("disk", "os"):
            raise InvalidInput(f"{url}: durability is disk or os, not {durability!r}")
        if parsed.host or len(parsed.path) < 2:
            raise InvalidInput(
                f"{url} names no file; write sqlite:///agents.db, or sqlite:////var/lib/agents.db"
            )
        self.path = Path(parsed.path[1:])
        self.limits = Limits(
            durability="disk" if durability == "disk" else "os",
            max_commit=64 << 20,
            watch_delay=2 * POLL_SECONDS,
            signals="process",
        )
        self._now = clock or system_clock
        self._watchers = Watchers()
        self._seen: dict[ConversationKey, Any] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._poller: asyncio.Task[None] | None = None

    async def _pending_migrations(self) -> list[str]:
        with translated(self.url):
            return await asyncio.to_thread(schema.pending, self.path, self.url)

    async def _migrate(self) -> None:
        with translated(self.url):
            await asyncio.to_thread(schema.prepare, self.path, self.url, migrate=True)

    async def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        with translated(self.url), contextlib.ExitStack() as undo:
            await asyncio.to_thread(schema.prepare, self.path, self.url, migrate=False)
            self._inline = undo.enter_context(contextlib.closing(self._connect()))
            self._inline.execute("PRAGMA busy_timeout = 0")
            self._writing = undo.enter_context(contextlib.closing(self._connect()))
            left = whole.hidden(self._writing, self._now())
            self._connections = undo.pop_all()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(_READERS, "holdfast-sqlite-reader")
        batch = Batch(self._writing, self._now)
        self._writer = Writer(self._writing, batch, self.url, self._loop, self._watchers.changed)
        for gone in left:
            self._keep(self._remove(gone))

    async def _close(self) -> None:
        self._watchers.close()
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._writer.close()
        await asyncio.to_thread(self._pool.shutdown)
        self._connections.close()

    def _connect(self) -> sqlite3.Connection:
        return schema.connect(self.path, durability=self.limits.durability)

    def _check_open(self) -> None:
        super()._check_open()
        if self._process != os.getpid():
            raise StoreError(f"{self.url} was opened before this process was forked; open it again here")
        if self._loop is not asyncio.get_running_loop():
            raise StoreError(f"{self.url} was opened in another event loop; open a store for each")

    # Writing

    async def _commit(self, change: Change) -> Commit:
        return await self._writer.run(partial(commit.commit, change=change), size=change.size)

    async def _acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        return await self._writer.run(lambda batch: leases.acquire(batch, key, holder, ttl))

    async def _claim(
        self, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]:
        return await self._writer.run(lambda batch: leases.claim(batch, holder, agents, limit, ttl))

    async def _renew(self, held: Sequence[Lease], ttl: float) -> list[Lease]:
        return await self._writer.run(lambda batch: leases.renew(batch, held, ttl))

    async def _release(self, lease: Lease, defer: float | None) -> None:
        await self._writer.run(lambda batch: leases.release(batch, lease, defer))

    async def _delete(self, key: ConversationKey, when: int | None) -> Erased:
        return await asyncio.shield(self._keep(self._hide_and_remove(key, when)))

    async def _hide_and_remove(self, key: ConversationKey, when: int | None) -> Erased:
        hidden = await self._writer.run(lambda batch: whole.hide(batch, key, when))
        if hidden is None:
            return Erased()
        gone, erased = hidden
        await self._remove(gone)
        return erased

    async def _remove(self, gone: whole.Hidden) -> None:
        while await self._writer.run(lambda batch: whole.remove_slice(batch, gone)):
            pass

    async def _fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        return await asyncio.shield(self._keep(self._copy_and_reveal(key, change, at, collections)))

    async def _copy_and_reveal(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        while True:
            fork = await self._writer.run(lambda batch: whole.begin_fork(batch, key, change.key, at))
            revealed = False
            try:
                while fork.copied < fork.at:
                    await self._writer.run(partial(whole.fork_slice, fork=fork))
                revealed = await self._writer.run(
                    partial(whole.reveal, fork=fork, key=key, change=change, collections=collections)
                )
            finally:
                if not revealed:
                    self._keep(self._remove(fork.hidden))
            if revealed:
                return await self._header(change.key)

    async def _settle(self) -> None:
        await asyncio.shield(self._keep(self._settle_all()))

    async def _settle_all(self) -> None:
        while await self._writer.run(index.settle_slice):
            pass

    async def _scrub(self) -> None:
        await asyncio.shield(self._keep(self._remove_bytes()))

    async def _remove_bytes(self) -> None:
        for gone in await self._writer.run(lambda batch: whole.hidden(self._writing, batch.now())):
            await self._remove(gone)
        await self._writer.run(index.forget_index)
        await self._settle_all()
        await self._writer.run(whole.scrub, alone=True)

    # Reading

    async def _read(self, read: Callable[[sqlite3.Connection], T], *, small: bool) -> T:
        """
        Run a read: a small one at once, a large one in another thread.

        A hop to a thread and back costs ten times a small read, and a read never waits for a
        sync or for the writer. Where it would have to wait (a file that is being recovered), it
        goes to a thread too.
        """
        if small:
            try:
                return read(self._inline)
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
        return await self._loop.run_in_executor(self._pool, self._read_in_thread, read)

    def _read_in_thread(self, read: Callable[[sqlite3.Connection], T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._connections.enter_context(contextlib.closing(connection))
        return read(connection)

    async def _header(self, key: ConversationKey) -> Header:
        with translated(self.url):
            return await self._read(lambda c: reads.header(c, key), small=True)

    async def _load(self, key: ConversationKey, records: Sequence[tuple[str, str]]) -> Loaded:
        with translated(self.url):
            loaded = await self._read(lambda c: reads.load(c, key, records, at_most=SMALL_READ), small=True)
            if loaded is None:
                loaded = await self._read(lambda c: reads.load(c, key, records, at_most=None), small=False)
            assert loaded is not None
            return loaded

    async def _events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]:
        span = None if before is None else before - after
        small = (limit or SMALL_READ + 1) <= SMALL_READ or (span is not None and span <= SMALL_READ)
        with translated(self.url):
            return await self._read(lambda c: reads.events(c, key, after, before, limit), small=small)

    async def _calls(
        self, key: ConversationKey, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]:
        small = call_ids is not None and len(call_ids) <= SMALL_READ
        with translated(self.url):
            return await self._read(lambda c: reads.calls(c, key, status, call_ids), small=small)

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
        small = (limit or SMALL_READ + 1) <= SMALL_READ or (keys is not None and len(keys) <= SMALL_READ)
        with translated(self.url):
            return await self._read(
                lambda c: reads.records(c, key, collection, keys, prefix, after, before, limit, reverse),
                small=small,
            )

    async def _texts(self, key: ConversationKey, after: int, before: int | None) -> dict[int, str]:
        with translated(self.url):
            return await self._read(lambda c: reads.texts(c, key, after, before), small=False)

    async def _inventory(self, key: ConversationKey) -> tuple[list[str], list[tuple[str, str, str]]]:
        with translated(self.url):
            return await self._read(lambda c: reads.inventory(c, key), small=False)

    async def _headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        small = tag is None and limit <= SMALL_READ
        with translated(self.url):
            if await self._read(lambda c: reads.is_unsettled(c, owner), small=True):
                await self._settle()
            return await self._read(lambda c: reads.headers(c, owner, tag, order, before, limit), small=small)

    async def _owners(self, after: str, limit: int) -> list[str]:
        with translated(self.url):
            return await self._read(lambda c: reads.owners(c, after, limit), small=False)

    async def _open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]:
        with translated(self.url):
            return await self._read(lambda c: reads.open_calls(c, owner, status, limit), small=False)

    async def _find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        with translated(self.url):
            return await self._read(lambda c: reads.find(c, owner, name, value, limit), small=False)

    async def _due(self, limit: int) -> list[Call]:
        with translated(self.url):
            return await self._read(lambda c: reads.due(c, self._now(), limit), small=True)

    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        return await asyncio.shield(self._keep(self._index_and_search(owner, query, limit)))

    async def _index_and_search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        with translated(self.url):
            if await self._read(lambda c: reads.is_unsettled(c, owner), small=True):
                await self._settle_all()
            return await self._read(lambda c: index.search(c, owner, query, limit), small=False)

    # Hints

    @contextlib.asynccontextmanager
    async def _watch(self, keys: frozenset[ConversationKey] | None) -> AsyncIterator[AsyncIterator[Notice]]:
        async with self._watchers.watch(keys) as notices:
            with translated(self.url):
                self._seen |= {
                    key: await self._read(partial(reads.marks, key=key), small=True) for key in keys or ()
                }
                version = await self._read(reads.data_version, small=True)
            if self._poller is None or self._poller.done():
                self._poller = self._loop.create_task(self._poll(version))
            yield notices

    async def _signal(self, key: ConversationKey, payload: bytes) -> None:
        self._watchers.signal(key, payload)

    async def _poll(self, version: int) -> None:
        """Notice what other processes commit, for as long as somebody watches."""
        while self._watchers:
            # A file that is locked for a moment is looked at again in the next round.
            with contextlib.suppress(sqlite3.OperationalError):
                latest = reads.data_version(self._inline)
                if latest != version:
                    version = latest
                    marks = {key: reads.marks(self._inline, key) for key in self._watchers.keys}
                    self._watchers.changed(
                        [key for key, mark in marks.items() if mark != self._seen.get(key)]
                    )
                    self._seen = marks
                    if self._watchers.any:
                        self._watchers.changed([None])
            await asyncio.sleep(POLL_SECONDS)

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run what takes the writer several turns to its end even if nobody waits for it; ``close`` does."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
