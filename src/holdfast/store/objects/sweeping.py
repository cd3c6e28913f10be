"""
Looking through everything: what crashes and stopped writers left behind is removed, and index
entries that are missing are written again.

Nothing is taken for a leftover that somebody could still be about to use: an object has to be older
than a writer trusts what it knows, and a name older than anybody may hold on to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable

from holdfast.clock import SECOND, system_clock
from holdfast.store.objects import names
from holdfast.store.objects.bucket import Bucket, Stat
from holdfast.store.objects.clearing import Clearing
from holdfast.store.objects.heads import Heads
from holdfast.store.objects.index import DUE, WAKE, WORDS, paths_of, pointer, words_path
from holdfast.store.objects.merging import SETTLED, Merger, pack_words
from holdfast.store.objects.names import Listing, Parts, Place
from holdfast.store.objects.packing import encode
from holdfast.store.objects.roots import RETAIN, Root, decode_root
from holdfast.store.objects.rows import TAGGED
from holdfast.store.objects.segments import Gone, Segments
from holdfast.store.objects.state import State

_AT_ONCE = 16
_TRIES = 5
_TEMPORARY_FOR = 600


class Sweeper:
    """Goes over the whole store. Any number of them may, at any time."""

    def __init__(
        self, bucket: Bucket, heads: Heads, segments: Segments, clearing: Clearing, merger: Merger
    ) -> None:
        self._bucket = bucket
        self._heads = heads
        self._segments = segments
        self._clearing = clearing
        self._merger = merger

    async def sweep(self) -> None:
        """Remove what nobody needs, and mend what is missing."""
        now = await self.mark()
        entries = [stat for kind in (names.OWNERS, DUE, WAKE) for stat in await self._bucket.listed(kind)]
        needed: set[str] = set()
        folders = self._folders()
        while batch := [folder async for folder in _some(folders, _AT_ONCE)]:
            for paths in await asyncio.gather(*(self._conversation(*folder, now) for folder in batch)):
                needed.update(paths)
        await self._mend(entries, needed, now)
        for kind, age in ((names.PROBES, _TEMPORARY_FOR), (names.TEMPORARY, _TEMPORARY_FOR)):
            old = [stat.path async for stat in _each(self._bucket, kind) if _old(stat.modified, now, age)]
            await self._bucket.delete(old)
        await self._bucket.prune(names.OWNERS)

    async def mark(self) -> int:
        """Note that somebody sweeps now. What time that is, the storage says."""
        await self._bucket.put(names.SWEPT, b"")
        return await self._bucket.modified(names.SWEPT) or 0

    async def overdue(self, seconds: float) -> bool:
        """Whether nobody has swept for that long. A store that is new is left alone at first."""
        last = await self._bucket.modified(names.SWEPT)
        if last is None:
            await self.mark()
        return last is not None and _old(last, system_clock(), seconds)

    async def _folders(self) -> AsyncIterator[tuple[str, Listing]]:
        """Every conversation's folder, and what is in it."""
        folder, stats = "", list[Stat]()
        async for stat in _each(self._bucket, names.CONVERSATIONS):
            here = "/".join(stat.path.split("/", 2)[:2])
            if here != folder and stats:
                yield folder, Listing.of(stats)
                stats = []
            folder = here
            stats.append(stat)
        if stats:
            yield folder, Listing.of(stats)

    async def _conversation(self, folder: str, listing: Listing, now: int) -> list[str]:
        """Mend one conversation; the index entries that it needs."""
        roots = await self._roots(folder, listing)
        begun = {root.uid: name for name, root in roots.items() if root.uid}
        for uid, name in begun.items():
            if uid not in listing.incarnations and _old(listing.roots[name], now, RETAIN):
                # Its author was stopped before it wrote this, for so long that its first entry was removed.
                await self._bucket.put(Place(folder, uid).closed, b"")
        found = await self._heads.fresh(folder)
        for uid, parts in listing.incarnations.items():
            place = Place(folder, uid)
            if not isinstance(found, State) or found.place != place:
                await self._other(place, parts, begun.get(uid), roots, now)
        for name, root in roots.items():
            if not root.uid and name not in begun and _old(listing.roots[name], now, RETAIN):
                await self._bucket.delete([names.root(folder, name)])
        if isinstance(found, State):
            return await self._living(found, now)
        await self._bucket.prune(folder)
        return []

    async def _roots(self, folder: str, listing: Listing) -> dict[str, Root]:
        bodies = await asyncio.gather(*(self._bucket.get(names.root(folder, name)) for name in listing.roots))
        return {name: decode_root(body) for name, body in zip(listing.roots, bodies, strict=True) if body}

    async def _living(self, state: State, now: int) -> list[str]:
        slot = self._heads.slot(state.place.folder)
        for _ in range(_TRIES):
            try:
                if slot.state is None:
                    found = await self._heads.fresh(slot.folder)
                    if not isinstance(found, State):
                        return []
                    state = found
                long = len(state.tail) >= SETTLED
                if (state.dirty or long) and not await self._merger.merge(slot, purge=state.dirty):
                    continue
                await self._merger.collect(state, now=now)
                state = slot.state or state
                return [*paths_of(state, dict(await self._segments.under(state, TAGGED)))]
            except Gone:
                self._heads.forget(slot)
        return []

    async def _other(
        self, place: Place, parts: Parts, root: str | None, roots: dict[str, Root], now: int
    ) -> None:
        """Remove an incarnation that is not the current one, as far as its time has come."""
        if parts.closed is None:
            written = [*parts.logs.values(), *parts.checkpoints.values(), *parts.segments.values()]
            if root is not None and await self._ended(place, parts):
                return
            # Otherwise it may be one that is just being made.
            if _old(max(written), now, RETAIN):
                await self._bucket.put(place.closed, b"")
            return
        await self._clearing.empty(place)
        if not _old(parts.closed, now, RETAIN):
            return
        if root is not None:
            # First nobody can make a successor any more, then it is as if it had never been there.
            blocked = encode(Root(roots[root].incarnation))
            await self._bucket.create(names.root(place.folder, place.uid), blocked)
            await self._bucket.delete([names.root(place.folder, root)])
        await self._bucket.delete(map(place.log, parts.logs))
        await self._bucket.delete([place.closed])

    async def _ended(self, place: Place, parts: Parts) -> bool:
        """Finish the removal of a conversation whose chain has ended; False if it has not."""
        state = await self._heads.read(place, parts)
        if state is None or not state.closed:
            return False
        # Gone: somebody else is removing it.
        with contextlib.suppress(Gone):
            await self._clearing.end(state, await self._segments.under(state, TAGGED))
        return True

    async def _mend(self, entries: list[Stat], needed: set[str], now: int) -> None:
        """Write index entries that are missing, and remove those that nobody needs."""
        there = {stat.path for stat in entries}
        missing = sorted(needed - there)
        unneeded = [
            stat.path
            for stat in entries
            if stat.path not in needed and _old(stat.modified, now, 2 * self._heads.trust)
        ]
        for path in await self._still(missing):
            words = path.split("/")[2] == WORDS if path.startswith(f"{names.OWNERS}/") else False
            await (self._write_words(path) if words else self._bucket.put(path, b""))
        used = await self._still(unneeded)
        await self._bucket.delete(path for path in unneeded if path not in used)

    async def _write_words(self, path: str) -> None:
        """Make the word list of a segment anew."""
        found = await self._heads.fresh(pointer(path).folder)
        if isinstance(found, State):
            for segment in found.segments:
                if words_path(found.key, segment.name) != path:
                    continue
                # Gone: what took its place has a list of its own.
                with contextlib.suppress(Gone):
                    rows = await self._segments.all(found.place, segment)
                    await self._bucket.put(path, pack_words(rows.items()))

    async def _still(self, paths: Iterable[str]) -> set[str]:
        """Those of some entries that belong to their conversations now: time has passed since the listing."""
        paths = list(paths)
        states = await self._heads.states(pointer(path).folder for path in paths)
        used: set[str] = set()
        for state in states:
            try:
                used.update(paths_of(state, dict(await self._segments.under(state, TAGGED))))
            except Gone:
                # It has just been merged: all that it may have had counts as used.
                used.update(path for path in paths if pointer(path).folder == state.place.folder)
        return used.intersection(paths)


async def _each(bucket: Bucket, prefix: str) -> AsyncIterator[Stat]:
    async for page in bucket.pages(prefix):
        for stat in page:
            yield stat


async def _some(items: AsyncIterator[tuple[str, Listing]], count: int) -> AsyncIterator[tuple[str, Listing]]:
    for _ in itertools.repeat(None, count):
        item = await anext(items, None)
        if item is None:
            return
        yield item


def _old(modified: int, now: int, seconds: float) -> bool:
    return modified <= now - round(seconds * SECOND)
