"""
Search without an index: an owner's conversations are read, the last active first.

Hits come newest first, so reading stops as soon as nothing that is left can be newer than the worst
hit that would still be given. A rare word reads everything that its owner has.
"""

from __future__ import annotations

import asyncio
import heapq

from holdfast.ids import ConversationKey
from holdfast.model.records import Hit
from holdfast.store.redis import codec
from holdfast.store.redis.reads import Reads
from holdfast.store.search import Query, located

_CONVERSATIONS_AT_ONCE = 16
_EVENTS_A_PAGE = 250

Ranked = tuple[tuple[int, ConversationKey, int], Hit]


class Search:
    """One search: collects the newest hits."""

    def __init__(self, reads: Reads, query: Query, limit: int) -> None:
        self._reads = reads
        self._query = query
        self._limit = limit
        self._best: list[Ranked] = []

    async def run(self, owner: str) -> list[Hit]:
        """The hits of an owner, newest first."""
        before, some = None, 1
        while page := await self._reads.headers(owner, None, "activity", before, some):
            if self._is_over(page[0].activity):
                break
            await asyncio.gather(*(self._look_through(header.key) for header in page))
            before, some = (page[-1].activity, page[-1].key.id), min(some * 2, _CONVERSATIONS_AT_ONCE)
        return [hit for _, hit in sorted(self._best, key=lambda ranked: ranked[0], reverse=True)]

    def _is_over(self, at: int) -> bool:
        """Whether nothing that was written up to then can be among the hits any more."""
        return len(self._best) == self._limit and at < self._best[0][0][0]

    async def _look_through(self, key: ConversationKey) -> None:
        before: int | None = None
        base = b""
        while before is None or before > 1:
            page = await self._reads.newest(key, before, _EVENTS_A_PAGE, base)
            if page is None or not page.rows:
                return
            for seq, row in zip(range(page.last, page.first - 1, -1), reversed(page.rows), strict=True):
                at = int(row[: codec.STAMP])
                if self._is_over(at):
                    return
                self._look_at(key, seq, at, row)
            before, base = page.first, page.base

    def _look_at(self, key: ConversationKey, seq: int, at: int, row: bytes) -> None:
        if (where := codec.search_text(row)) is None:
            return
        text = located(*where)
        if self._query.matches(text):
            ranked = ((at, key, seq), Hit(key, seq, self._query.snippet(text)))
            if len(self._best) < self._limit:
                heapq.heappush(self._best, ranked)
            else:
                heapq.heappushpop(self._best, ranked)
