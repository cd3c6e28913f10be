"""
The store for many machines that have MySQL or MariaDB.

Commits of different conversations that wait at the same moment are written by one transaction, with
one statement for each kind of row.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any

from holdfast.clock import Clock
from holdfast.ids import ConversationKey
from holdfast.model.records import Commit, Header, Hit, Lease, Loaded, Notice
from holdfast.store.backend import Cursor, Limits, Order
from holdfast.store.change import Change
from holdfast.store.mysql.driver import Access, Pool
from holdfast.store.mysql.faults import translated
from holdfast.store.mysql.index import Index
from holdfast.store.mysql.kernel import Kernel
from holdfast.store.mysql.leases import Leases
from holdfast.store.mysql.literals import named
from holdfast.store.mysql.load import inventory, load, newest
from holdfast.store.mysql.options import Options
from holdfast.store.mysql.schema import PACKAGE, Schema, words_of
from holdfast.store.mysql.whole import MySQLSlices
from holdfast.store.search import Query
from holdfast.store.sql.decide import is_plain
from holdfast.store.sql.groups import Groups, Outcome
from holdfast.store.sql.indexing import Background
from holdfast.store.sql.polling import Poller
from holdfast.store.sql.reads import Reads
from holdfast.store.sql.statements import load_statements
from holdfast.store.sql.store import SqlStore
from holdfast.store.sql.whole import remove

MAX_COMMIT = 32 << 20
POLL_SECONDS = 0.2
WRITERS = 2


class MySQLStore(SqlStore):
    """
    Conversations on a MySQL or MariaDB server: ``mysql://user:password@host:3306/database``.

    ``?prefix=holdfast_`` begins the names of the tables, ``?pool=8`` is how many connections a process
    may open, ``?timeout=30`` after how many seconds without an answer something fails.
    ``?ssl_mode=verify_identity`` encrypts. ``?durability=disk`` (the default) must be what the server
    really does; ``os`` takes any server.
    """

    _schema: Schema

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._options = options = Options.of(url)
        self.url = options.shown
        self._limit(MAX_COMMIT)
        self._q = load_statements(PACKAGE, words_of(options.prefix), named)
        self._access = Access(options)
        self._schema = Schema(self.url, options.prefix, self._q)

    def _limit(self, max_commit: int) -> None:
        self.limits = Limits(
            durability=self._options.durability,
            max_commit=min(MAX_COMMIT, max_commit),
            watch_delay=2 * POLL_SECONDS,
            signals="process",
            scrub=False,
        )

    @contextlib.asynccontextmanager
    async def _patiently(self) -> AsyncIterator[Any]:
        """A connection of its own, for work that may take longer than the timeout."""
        connection = await self._access.connect(patient=True)
        try:
            with translated(self.url):
                yield connection
        finally:
            connection.close()

    async def _open(self) -> None:
        self._begin()
        async with self._patiently() as connection:
            self._limit(await self._schema.check(connection, self._options.durability))
        self._pool = Pool(self._access, self._options.pool)
        self._kernel = Kernel(self._q, self._clock)
        self._reads = Reads(self._pool, self._q)
        self._slices = MySQLSlices(self._pool, self._kernel, self._q)
        self._leases = Leases(self._pool, self._kernel, self._q)
        self._index = Index(self._pool, self._q)
        self._background = Background(self._index, self._kernel.unindexed, self._keep)
        self._poller = Poller(self._pool, self._q, self._watchers, interval=POLL_SECONDS)
        self._groups = (Groups(self._write, writers=WRITERS),)
        try:
            left = await self._slices.hidden()
        except BaseException:
            await self._pool.close()
            raise
        self._keep(remove(self._slices, *left))

    async def _close(self) -> None:
        self._background.stop()
        await self._poller.close()
        await self._finish()
        await self._pool.close()

    # Writing

    async def _write(self, changes: list[Change]) -> Sequence[Outcome]:
        outcomes: Sequence[Outcome] | None = None
        [first, *others] = changes
        if not others and is_plain(first) and len(first.net.appends) == 1:
            commit = await self._kernel.append(self._pool, first)
            outcomes = None if commit is None else [commit]
        if outcomes is None:
            outcomes = await self._kernel.write(self._pool, changes)
        written = [c.key for c, outcome in zip(changes, outcomes, strict=True) if isinstance(outcome, Commit)]
        if written:
            self._changed(written)
        return outcomes

    def _changed(self, keys: Iterable[ConversationKey]) -> None:
        super()._changed(keys)
        self._background.stir()

    async def _acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        return await self._leases.acquire(key, holder, ttl)

    async def _claim(
        self, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]:
        return await self._leases.claim(holder, agents, limit, ttl)

    async def _renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        return await self._leases.renew(leases, ttl)

    async def _release(self, lease: Lease, defer: float | None) -> None:
        if await self._leases.release(lease, defer):
            self._changed([lease.key])

    # Reading

    async def _load(self, key: ConversationKey, records: Sequence[tuple[str, str]]) -> Loaded:
        return await load(self._pool, self._q, key, records)

    async def _headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        if tag is None and order == "activity":
            return await newest(self._pool, self._q, owner, before, limit)
        return await super()._headers(owner, tag, order, before, limit)

    async def _inventory(self, key: ConversationKey) -> tuple[list[str], list[tuple[str, str, str]]]:
        return await inventory(self._pool, self._q, key)

    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        return await self._index.search(owner, query, limit)

    # Hints and upkeep

    @contextlib.asynccontextmanager
    async def _watch(self, keys: frozenset[ConversationKey] | None) -> AsyncIterator[AsyncIterator[Notice]]:
        async with self._watchers.watch(keys) as notices:
            await self._poller.follow(keys or ())
            yield notices

    async def _signal(self, key: ConversationKey, payload: bytes) -> None:
        self._watchers.signal(key, payload)

    async def _settle(self) -> None:
        await self._index.settle()

    async def _scrub(self) -> None:
        """Nothing: the servers use the space of deleted rows again by themselves."""
