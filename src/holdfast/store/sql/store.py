"""The part of a store on an SQL server that does not depend on which server it is."""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod
from collections.abc import Collection, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from holdfast.clock import Clock
from holdfast.errors import StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Commit, Erased, Event, Found, Header, Record
from holdfast.store.backend import Cursor, Order
from holdfast.store.change import Change
from holdfast.store.contract import Store
from holdfast.store.sql.groups import Groups
from holdfast.store.sql.reads import Reads
from holdfast.store.sql.whole import Slices, copy_events, remove
from holdfast.store.watchers import Watchers


class Schema(Protocol):
    """The tables of a dialect, and the scripts that make them."""

    async def pending(self, connection: Any) -> list[str]: ...
    async def migrate(self, connection: Any) -> None: ...


class SqlStore(Store):
    """
    Commits in groups, reads by named queries, deletes and forks in slices.

    A dialect sets ``_schema`` when it is made, ``_reads``, ``_slices`` and ``_groups`` when it opens, and says in ``_group_of``
    which of its groups a commit goes to.
    """

    _schema: Schema
    _reads: Reads
    _slices: Slices
    _groups: tuple[Groups, ...]

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._watchers = Watchers()
        self._tasks: set[asyncio.Task[Any]] = set()

    def _group_of(self, change: Change) -> Groups:
        return self._groups[0]

    def _changed(self, keys: Iterable[ConversationKey]) -> None:
        """Tell who watches that these conversations changed."""
        self._watchers.changed(keys)

    def _begin(self) -> None:
        """Note to whom the store belongs. Called first when it is opened."""
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()

    async def _finish(self) -> None:
        """Wait for what was accepted. Called first when the store is closed."""
        self._watchers.close()
        for groups in self._groups:
            await groups.close()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check_open(self) -> None:
        super()._check_open()
        if self._process != os.getpid():
            raise StoreError(f"{self.url} was opened before this process was forked; open it again here")
        if self._loop is not asyncio.get_running_loop():
            raise StoreError(f"{self.url} was opened in another event loop; open a store for each")

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something to its end even if nobody waits for it; ``close`` does."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _pending_migrations(self) -> list[str]:
        async with self._patiently() as connection:
            return await self._schema.pending(connection)

    async def _migrate(self) -> None:
        async with self._patiently() as connection:
            await self._schema.migrate(connection)

    @abstractmethod
    def _patiently(self) -> AbstractAsyncContextManager[Any]:
        """A connection of its own, for work that may take longer than the timeout."""

    # Writing

    async def _commit(self, change: Change) -> Commit:
        return await self._group_of(change).commit(change)

    async def _delete(self, key: ConversationKey, when: int | None) -> Erased:
        hidden = await self._slices.hide(key, when)
        if hidden is None:
            return Erased()
        pk, erased = hidden
        self._changed([key])
        await asyncio.shield(self._keep(remove(self._slices, pk)))
        return erased

    async def _fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        while True:
            fork = await self._slices.begin_fork(key, change.key, at)
            revealed = False
            try:
                await copy_events(self._slices, fork)
                revealed = await self._slices.reveal(fork, key, change, collections)
            finally:
                if not revealed:
                    self._keep(remove(self._slices, fork.pk))
            if revealed:
                self._changed([change.key])
                return await self._header(change.key)

    # Reading

    async def _header(self, key: ConversationKey) -> Header:
        return await self._reads.header(key)

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

    async def _due(self, limit: int) -> list[Call]:
        return await self._reads.due(None if self._clock is None else self._clock(), limit)
