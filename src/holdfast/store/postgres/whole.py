"""The steps of deleting and forking whole conversations on PostgreSQL."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
from asyncpg import UniqueViolationError  # type: ignore[import-untyped]

from holdfast.errors import AlreadyExists, NotFound, StaleHeader, StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import Erased
from holdfast.store.change import Change
from holdfast.store.postgres.driver import Pool
from holdfast.store.postgres.kernel import Kernel
from holdfast.store.rules import guard
from holdfast.store.sql.database import split
from holdfast.store.sql.whole import HIDDEN_FOR, Fork, fork_point


class PostgresSlices:
    """Deletes and forks, step by step. Keeps the contract of ``Slices``."""

    def __init__(self, pool: Pool, kernel: Kernel, queries: SimpleNamespace) -> None:
        self._pool = pool
        self._fetch = pool.fetch
        self._kernel = kernel
        self._q = queries

    async def hide(self, key: ConversationKey, when: int | None) -> tuple[int, Erased] | None:
        while True:
            pk, commits = (None, None) if when is None else split(when)
            rows = await self._fetch(self._q.hide, owner=key.owner, id=key.id, pk=pk, commits=commits)
            if rows:
                break
            there = await self._fetch(self._q.exists, owner=key.owner, id=key.id)
            if not there:
                return None
            revision = guard(*there[0])
            if when not in (None, revision):
                raise StaleHeader(key, expected=when or 0, actual=revision)
        [(gone, last_seq)] = rows
        # Nobody can change it any more, so these are its last numbers.
        [counts] = await self._fetch(self._q.counts, pk=gone)
        return gone, Erased(1, last_seq, *counts)

    async def hidden(self) -> list[int]:
        return [row[0] for row in await self._fetch(self._q.hidden, now=self._kernel.now())]

    async def remove_slice(self, pk: int) -> bool:
        [(more,)] = await self._fetch(self._q.remove_slice, pk=pk)
        if not more:
            await self._fetch(self._q.remove_rest, pk=pk)
        return bool(more)

    async def begin_fork(self, key: ConversationKey, new: ConversationKey, at: int | None) -> Fork:
        rows = await self._fetch(self._q.fork_source, owner=key.owner, id=key.id)
        if not rows:
            raise NotFound(key)
        [(source, last_seq, redactions)] = rows
        at = fork_point(key, at, last_seq)
        if await self._fetch(self._q.exists, owner=new.owner, id=new.id):
            raise AlreadyExists(new)
        made = await self._fetch(
            self._q.fork_begin, id=key.id, source=source, at=at, hidden_for=HIDDEN_FOR, now=self._kernel.now()
        )
        if not made:
            raise NotFound(key)
        return Fork(made[0][0], source, at, redactions)

    async def fork_slice(self, fork: Fork, until: int) -> None:
        await self._fetch(
            self._q.fork_slice,
            pk=fork.pk,
            source=fork.source,
            after=fork.copied,
            until=until,
            hidden_for=HIDDEN_FOR,
            now=self._kernel.now(),
        )

    async def reveal(
        self, fork: Fork, key: ConversationKey, change: Change, collections: frozenset[str]
    ) -> bool:
        new, now = change.key, self._kernel.now()
        try:
            async with self._pool.transaction() as transaction:
                source = await transaction.fetch(
                    self._q.fork_lock, source=fork.source, owner=key.owner, id=key.id
                )
                if not source:
                    raise NotFound(key)
                if source[0][0] != fork.redactions:
                    return False
                named = {"owner": new.owner, "id": new.id}
                # Without a sign of life for long, it was taken for a crashed one and is being removed.
                if not await transaction.fetch(self._q.fork_reveal, pk=fork.pk, now=now, **named):
                    return False
                await transaction.fetch(
                    self._q.fork_records, pk=fork.pk, source=fork.source, collections=list(collections)
                )
                await self._kernel.write_once(transaction, msgspec.structs.replace(change, create=None))
        except StoreError as exc:
            if isinstance(exc.__cause__, UniqueViolationError):
                raise AlreadyExists(new) from None
            raise
        self._kernel.unindexed.add(fork.pk)
        return True
