"""Reading across conversations: index entries say where to look, and the conversations what is true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any, TypeVar

from holdfast.errors import NotFound
from holdfast.model.records import Call, CallStatus, Found, Header
from holdfast.store.backend import Cursor, Order
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.heads import Heads
from holdfast.store.objects.index import (
    ACTIVE,
    ACTIVITY_SLACK,
    CREATED,
    DUE,
    OPEN_CALLS,
    Pointer,
    listed_under,
    newest_first,
    pointer,
    tag_folder,
)
from holdfast.store.objects.names import OWNERS, ordered
from holdfast.store.objects.reads import Reads
from holdfast.store.objects.state import State

T = TypeVar("T")

_BATCH = 32
_OWNERS_AT_ONCE = 16

Ranked = tuple[tuple[Any, ...], T]
"""A thing and its rank, which begins with the time that entries are sorted by."""


class Lists:
    """Answers about many conversations."""

    def __init__(self, bucket: Bucket, heads: Heads, reads: Reads) -> None:
        self._bucket = bucket
        self._heads = heads
        self._reads = reads

    async def headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        def place(header: Header) -> Cursor:
            return (header.activity if order == "activity" else header.created_at, header.key.id)

        def rank(state: State) -> list[Ranked[Header]]:
            header = state.header
            return [(place(header), header)] if before is None or place(header) < before else []

        if tag is not None:
            tagged = [state.header for state, _ in await self._tagged(owner, *tag)]
            ranked = (item for item in tagged if before is None or place(item) < before)
            return sorted(ranked, key=place, reverse=True)[:limit]
        kind, slack = (ACTIVE, ACTIVITY_SLACK) if order == "activity" else (CREATED, 0)
        under = listed_under(owner, kind)
        after = f"{under}/{newest_first(before[0])}" if before else None
        entries = self._entries(under, after)
        return await _first(limit, self._in_order(entries, rank, newest_first=True, slack=slack))

    async def owners(self, after: str, limit: int) -> list[str]:
        folders = [
            folder for folder in await self._bucket.folders(OWNERS) if _beginning(folder) >= ordered(after)
        ]
        found: list[str] = []
        for start in range(0, len(folders), _OWNERS_AT_ONCE):
            some = folders[start : start + _OWNERS_AT_ONCE]
            if len(found) >= limit and _beginning(some[0]) > ordered(max(found)):
                break
            names = await asyncio.gather(*map(self._owner, some))
            found += [name for name in names if name is not None and name > after]
        return sorted(found)[:limit]

    async def open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]:
        listed = await self._bucket.listed(listed_under(owner, OPEN_CALLS))
        states = await self._heads.states(pointer(stat.path).folder for stat in listed)
        calls = [
            row.call(state.key) for state in states for row in state.calls.values() if row.status in status
        ]
        return sorted(calls, key=lambda call: (call.opened_at, call.key.id))[:limit]

    async def find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        tagged = await self._tagged(owner, name, value)
        return sorted(Found(state.key, ref) for state, refs in tagged for ref in refs)[:limit]

    async def due(self, now: int, limit: int) -> list[Call]:
        def rank(state: State) -> Iterable[Ranked[Call]]:
            for row in state.calls.values():
                if row.expires_at is not None and row.expires_at <= now:
                    yield (row.expires_at, state.key, row.call_id), row.call(state.key)

        return await _first(limit, self._in_order(self._entries(DUE, None, until=now), rank))

    def in_order_of_time(
        self, kind: str, now: int, rank: Callable[[State], Iterable[Ranked[T]]]
    ) -> AsyncIterator[T]:
        """Things of conversations whose timer has run out, the longest waiting first."""
        return self._in_order(self._entries(kind, None, until=now), rank)

    async def _tagged(self, owner: str, name: str, value: str) -> list[tuple[State, list[str]]]:
        listed = await self._bucket.listed(tag_folder(owner, name, value))
        states = await self._heads.states(pointer(stat.path).folder for stat in listed)

        async def refs(state: State) -> tuple[State, list[str]]:
            async def read(state: State) -> tuple[State, list[str]]:
                return state, await self._reads.refs(state, name, value)

            try:
                return await self._reads.of(state.key, read)
            except NotFound:
                return state, []

        return [(state, refs) for state, refs in await asyncio.gather(*map(refs, states)) if refs]

    async def _owner(self, folder: str) -> str | None:
        """The owner whose folder this is, if it has conversations."""
        async for entries in self._entries(f"{folder}/{CREATED}", None):
            for state in await self._heads.states(entry.folder for entry in entries):
                return state.key.owner
        return None

    async def _entries(
        self, under: str, after: str | None, *, until: int | None = None
    ) -> AsyncIterator[list[Pointer]]:
        """Entries in the order of their names, some at a time; ``until`` is the last time they may have."""
        async for page in self._bucket.pages(under, after=after):
            entries = [pointer(stat.path) for stat in page]
            inside = [entry for entry in entries if until is None or entry.at <= until]
            for start in range(0, len(inside), _BATCH):
                yield inside[start : start + _BATCH]
            if len(inside) < len(entries):
                return

    async def _in_order(
        self,
        batches: AsyncIterator[list[Pointer]],
        rank: Callable[[State], Iterable[Ranked[T]]],
        *,
        newest_first: bool = False,
        slack: int = 0,
    ) -> AsyncIterator[T]:
        """
        Things of the conversations that entries point to, in the order of their rank.

        The true time of a thing is at most ``slack`` after that of its entry, or not before it
        where the oldest come first. So those of later entries can't come before it.
        """
        waiting: list[Ranked[T]] = []
        seen: set[str] = set()
        async for batch in batches:
            if newest_first:
                ready = [item for item in waiting if item[0][0] > batch[0].at + slack]
            else:
                ready = [item for item in waiting if item[0][0] < batch[0].at]
            for _, item in ready:
                yield item
            del waiting[: len(ready)]
            folders = dict.fromkeys(entry.folder for entry in batch if entry.folder not in seen)
            seen.update(folders)
            for state in await self._heads.states(folders):
                waiting += rank(state)
            waiting.sort(key=lambda item: item[0], reverse=newest_first)
        for _, item in waiting:
            yield item


async def _first(limit: int, items: AsyncIterator[T]) -> list[T]:
    found: list[T] = []
    async for item in items:
        found.append(item)
        if len(found) == limit:
            break
    return found


def _beginning(folder: str) -> str:
    return folder.rpartition("/")[2].partition("-")[0]
