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
from holdfast.store.objects.rows import Rows
from holdfast.store.objects.state import Checkpoint, State, decode_checkpoint

_MARGIN = 2 * SECOND


class Clearing:
    """Removes what nobody may read any more."""

    def __init__(self, bucket: Bucket, heads: Heads) -> None:
        self._bucket = bucket
        self._heads = heads

    async def end(self, state: State, tagged: Rows) -> None:
        """
        Remove what belongs to a conversation whose chain has ended: first its index, then the rest.

        ``tagged`` are its rows of that kind.
        """
        await self._bucket.delete(paths_of(state, tagged))
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
        covered = await self._covered(place, parts, now)
        await self._bucket.delete(place.log(n) for n in numbers if n <= covered)
        full = [n for n in numbers if n > covered and n not in parts.blank]
        await asyncio.gather(*(self._bucket.put(place.log(n), b"") for n in full))

    async def _covered(self, place: Place, parts: Parts, now: int) -> int:
        """
        The last entry whose number nobody needs to find taken any more; 0 if there is none.

        A checkpoint that is old enough says so. The time of an entry does not: a slow upload, or a
        process that is stopped in the middle of one, shows it long after the time that it bears.
        """
        before = now - round(2 * self._heads.trust * SECOND) - _MARGIN
        old = max((v for v, written in parts.checkpoints.items() if written <= before), default=0)
        body = await self._bucket.get(place.checkpoint(old)) if old else None
        return decode_checkpoint(body).n if body else 0
