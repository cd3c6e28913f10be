"""
The store for many machines: a PostgreSQL server.

Commits of different conversations that wait at the same moment are written by one statement. No
transaction stays open while this process thinks, and nothing is kept on a connection that a proxy
could give to somebody else.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any

from holdfast.clock import Clock
from holdfast.ids import ConversationKey
from holdfast.model.records import Commit, Hit, Lease, Loaded, Notice
from holdfast.store.backend import Limits
from holdfast.store.change import Change
from holdfast.store.postgres.channel import Channel
from holdfast.store.postgres.driver import Access, Pool
from holdfast.store.postgres.faults import translated
from holdfast.store.postgres.index import Index
from holdfast.store.postgres.kernel import Kernel
from holdfast.store.postgres.leases import Leases
from holdfast.store.postgres.load import load
from holdfast.store.postgres.options import Options
from holdfast.store.postgres.schema import PACKAGE, Schema, numbered, words_of
from holdfast.store.postgres.whole import PostgresSlices
from holdfast.store.search import Query
from holdfast.store.sql.decide import is_plain
from holdfast.store.sql.groups import Groups, Outcome
from holdfast.store.sql.indexing import Background
from holdfast.store.sql.polling import Poller
from holdfast.store.sql.reads import Reads
from holdfast.store.sql.statements import load_pieces, load_statements
from holdfast.store.sql.store import SqlStore
from holdfast.store.sql.whole import remove

POLL_SECONDS = 1.0
POLL_SECONDS_POOLED = 0.1
WRITERS = 2

_TABLES = ("conversations", "profiles", "events", "calls", "records", "tags", "tokens", "texts")


class PostgresStore(SqlStore):
    """
    Conversations on a PostgreSQL server: ``postgresql://user:password@host:5432/database``.

    ``?schema=holdfast`` is where the tables are, ``?pool=8`` how many connections a process may open,
    ``?timeout=30`` after how many seconds without an answer something fails. With
    ``?pooling=transaction`` it works behind a proxy that pools transactions. ``?durability=disk`` (the
    default) or ``replicated`` must be what the server really does; ``os`` takes any server.
    """

    _schema: Schema

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._options = options = Options.of(url)
        self.url = options.shown
        self._poll = POLL_SECONDS_POOLED if options.pooled else POLL_SECONDS
        self.limits = Limits(
            durability=options.durability,
            max_commit=32 << 20,
            watch_delay=2 * self._poll,
            signals="process" if options.pooled else "everywhere",
            scrub=False,
        )
        self._q = load_statements(PACKAGE, words_of(options.schema), numbered)
        self._access = Access(options.dsn, options.shown, options.timeout, options.pooled)
        self._schema = Schema(self.url, options.schema, self._q, row_security=options.row_security)

    @contextlib.asynccontextmanager
    async def _patiently(self) -> AsyncIterator[Any]:
        """A connection of its own, for work that may take longer than the timeout."""
        connection = await self._access.connect(patient=True)
        try:
            with translated(self.url):
                yield connection
        finally:
            connection.terminate()

    async def _open(self) -> None:
        self._begin()
        async with self._patiently() as connection:
            await self._schema.check(connection, self._options.durability)
        self._pool = Pool(self._access, self._options.pool)
        pieces = load_pieces(PACKAGE, "kernel.sql", words_of(self._options.schema))
        self._kernel = Kernel(self._q, pieces, self._clock)
        self._reads = Reads(self._pool, self._q)
        self._slices = PostgresSlices(self._pool, self._kernel, self._q)
        self._leases = Leases(self._pool, self._kernel, self._q)
        self._index = Index(self._pool, self._q)
        self._background = Background(self._index, self._kernel.unindexed, self._keep)
        channel = f"holdfast_{self._options.schema}"
        self._channel = Channel(self._access, self._pool, self._q, self._watchers, channel)
        self._poller = Poller(self._pool, self._q, self._watchers, interval=self._poll)
        self._groups = (Groups(self._append, writers=WRITERS), Groups(self._write, writers=WRITERS))
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
        await self._channel.close()
        await self._pool.close()

    # Writing

    def _group_of(self, change: Change) -> Groups:
        plain, other = self._groups
        return plain if is_plain(change) else other

    async def _append(self, changes: list[Change]) -> Sequence[Outcome]:
        done = await self._kernel.append(self._pool, changes)
        self._tell(changes, done)
        left = [change for change, outcome in zip(changes, done, strict=True) if outcome is None]
        others = iter(await self._write(left) if left else ())
        return [next(others) if outcome is None else outcome for outcome in done]

    async def _write(self, changes: list[Change]) -> Sequence[Outcome]:
        outcomes = await self._kernel.write(self._pool, changes)
        self._tell(changes, outcomes)
        return outcomes

    def _tell(self, changes: Sequence[Change], outcomes: Sequence[Outcome | None]) -> None:
        written = [c.key for c, outcome in zip(changes, outcomes, strict=True) if isinstance(outcome, Commit)]
        if written:
            self._changed(written)

    def _changed(self, keys: Iterable[ConversationKey]) -> None:
        keys = list(keys)
        super()._changed(keys)
        self._channel.tell(keys)
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
        return await load(self._kernel, self._pool, key, records)

    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        return await self._index.search(owner, query, limit)

    # Hints and upkeep

    @contextlib.asynccontextmanager
    async def _watch(self, keys: frozenset[ConversationKey] | None) -> AsyncIterator[AsyncIterator[Notice]]:
        async with self._watchers.watch(keys) as notices:
            await self._channel.listen()
            await self._poller.follow(keys or ())
            yield notices

    async def _signal(self, key: ConversationKey, payload: bytes) -> None:
        self._watchers.signal(key, payload)
        await self._channel.signal(key, payload)

    async def _settle(self) -> None:
        await self._index.settle()

    async def _scrub(self) -> None:
        async with self._patiently() as connection:
            for table in _TABLES:
                await connection.execute(f'VACUUM "{self._options.schema}".{table}')
