"""
Removing bytes before their time: of a conversation that ended, and of what was redacted.

A writer trusts what it saw for some seconds, and must find every number taken that was used since. So
an entry whose content has to go at once is emptied, and removed only later; who finds an empty entry
knows that a newer checkpoint covers it, or that the conversation has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from holdfast.clock import SECOND
from holdfast.ids import ConversationKey
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.heads import Heads
from holdfast.store.objects.index import paths_of, words_path
from holdfast.store.objects.names import Listing, Parts, Place
from holdfast.store.objects.rows import TAGGED
from holdfast.store.objects.segments import Segments
from holdfast.store.objects.state import Checkpoint, State, decode_checkpoint


class Clearing:
    """Removes what nobody may read any more."""

    def __init__(self, bucket: Bucket, heads: Heads, segments: Segments) -> None:
        self._bucket = bucket
        self._heads = heads
        self._segments = segments

    async def end(self, state: State) -> None:
        """Remove what belongs to a conversation whose chain has ended: first its index, then the rest."""
        tagged = await self._segments.under(state, TAGGED)
        await self._bucket.delete(paths_of(state, dict(tagged)))
        await self._bucket.put(state.place.closed, b"")
        await self.empty(state.place, state.key)

    async def empty(self, place: Place, key: ConversationKey | None = None) -> None:
        """Remove the bytes of an incarnation that is marked as closed, with the words of its segments."""
        parts = await self._parts(place)
        await self._blank(place, parts, parts.logs, now=parts.closed or 0)
        await self._bucket.delete(map(place.checkpoint, parts.checkpoints))
        await self.segments(place, parts.segments, key)

    async def wipe(self, place: Place, key: ConversationKey, saved: Checkpoint) -> None:
        """Leave nothing of what a checkpoint replaced."""
        parts = await self._parts(place)
        newest = max(parts.checkpoints, default=0)
        if newest != saved.version:
            # Somebody has merged since: on top of this checkpoint, so the same is true of that one.
            body = await self._bucket.get(place.checkpoint(newest))
            if body is None:
                return
            saved = decode_checkpoint(body)
        covered = [n for n in parts.logs if n <= saved.n]
        await self._blank(place, parts, covered, now=parts.checkpoints[newest])
        await self._bucket.delete(place.checkpoint(v) for v in parts.checkpoints if v < newest)
        used = {segment.name for segment in saved.segments}
        unused = [s for s in parts.segments if s not in used and parts.version_of(s) <= newest]
        await self.segments(place, unused, key)

    async def segments(self, place: Place, names: Iterable[str], key: ConversationKey | None) -> None:
        """Remove segments, and the words in them."""
        names = list(names)
        words = [words_path(key, name) for name in names] if key else []
        await self._bucket.delete([*map(place.segment, names), *words])

    async def _parts(self, place: Place) -> Parts:
        listing = Listing.of(await self._bucket.listed(place.top))
        return listing.incarnations.get(place.uid, Parts())

    async def _blank(self, place: Place, parts: Parts, numbers: Collection[int], *, now: int) -> None:
        young = now - round(2 * self._heads.trust * SECOND)
        old = {n for n in numbers if parts.logs[n] < young}
        await self._bucket.delete(map(place.log, old))
        full = [n for n in numbers if n not in old and n not in parts.blank]
        await asyncio.gather(*(self._bucket.put(place.log(n), b"") for n in full))
