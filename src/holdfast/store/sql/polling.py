"""Looking whether conversations changed, for as long as somebody watches."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from holdfast.errors import StoreError
from holdfast.ids import ConversationKey
from holdfast.store.sql.database import Database, digest
from holdfast.store.watchers import Watchers


class Poller:
    """
    Notices what other processes commit.

    The query ``moment`` gives, in its last column, something that changes with every transaction of anybody; ``marks``
    what changes with a conversation.
    """

    def __init__(
        self, database: Database, queries: SimpleNamespace, watchers: Watchers, *, interval: float
    ) -> None:
        self._fetch = database.fetch
        self._q = queries
        self._watchers = watchers
        self._interval = interval
        self._seen: dict[ConversationKey, Any] = {}
        self._moment: Any = None
        self._task: asyncio.Task[None] | None = None

    async def follow(self, keys: Collection[ConversationKey]) -> None:
        """Watch these conversations too, from now on; what changed before is not noticed."""
        if self._task is None or self._task.done():
            self._moment = await self._now()
            self._seen = {}
            self._task = asyncio.create_task(self._run())
        marks = await self._marks(keys)
        self._seen = {**marks, **self._seen}

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._watchers:
            await asyncio.sleep(self._interval)
            try:
                await self._look()
            except StoreError:
                # The server is away for the moment; the next round sees what happened meanwhile.
                continue

    async def _look(self) -> None:
        moment = await self._now()
        if moment == self._moment:
            return
        marks = await self._marks(self._watchers.keys)
        changed = [key for key, mark in marks.items() if mark != self._seen.get(key, mark)]
        self._moment = moment
        # Who came while we looked has just noted where it starts.
        watched = self._watchers.keys
        self._seen = {key: mark for key, mark in {**self._seen, **marks}.items() if key in watched}
        self._watchers.changed(changed)
        if self._watchers.any:
            self._watchers.changed([None])

    async def _now(self) -> Any:
        return (await self._fetch(self._q.moment))[0][-1]

    async def _marks(self, keys: Collection[ConversationKey]) -> dict[ConversationKey, Any]:
        listed = list(keys)
        if not listed:
            return {}
        rows = await self._fetch(
            self._q.marks,
            owner=[key.owner for key in listed],
            id=[key.id for key in listed],
            places=[digest(key.owner, key.id) for key in listed],
        )
        found = {listed[row[0] - 1]: tuple(row[1:]) for row in rows}
        return {key: found.get(key) for key in listed}
