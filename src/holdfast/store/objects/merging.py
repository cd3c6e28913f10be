"""
Merging many small entries into few segments, and collecting what they leave behind.

A merge writes the tail as a segment, together with older segments that are not much larger, and
then a checkpoint of the next version, if nobody was quicker. Nothing that a checkpoint replaced is
removed before it is two times ``trust`` old: until then a writer may trust what it saw before.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from holdfast.clock import SECOND
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.clearing import Clearing
from holdfast.store.objects.heads import Heads, Slot
from holdfast.store.objects.index import words_path
from holdfast.store.objects.names import Listing, Place, segment_name
from holdfast.store.objects.packing import encode
from holdfast.store.objects.rows import CALL, EVENT, RECORD, TAG, TAGGED, Rows, unpack_event
from holdfast.store.objects.segments import Gone, Row, Segment, Segments, pack_segment
from holdfast.store.objects.state import Checkpoint, State, checkpoint, decode_checkpoint, rebased
from holdfast.store.rules import REDACTED
from holdfast.store.search import words

ENTRIES = 32
ROWS = 2000
BYTES = 1 << 20
LARGEST = 16 << 20
"""Segments of this size are not merged any more."""
SETTLED = 8
_RATIO = 2
_TRIES = 5
_MARGIN = 2 * SECOND


class Merger:
    """Merges the conversations that this process writes to."""

    entries = ENTRIES

    def __init__(
        self,
        bucket: Bucket,
        heads: Heads,
        segments: Segments,
        clearing: Clearing,
        keep: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._bucket = bucket
        self._heads = heads
        self._segments = segments
        self._clearing = clearing
        self._keep = keep
        self._written: dict[str, None] = {}

    def grown(self, slot: Slot, state: State) -> None:
        """Merge a conversation in the background if its tail has become long, or must not stay."""
        self._written[slot.folder] = None
        # Of several processes that write to a conversation, one should do it.
        count = len(state.tail)
        long = count >= 2 * self.entries or (count >= self.entries and count % self.entries == 0)
        large = state.size >= BYTES or len(state.rows) >= ROWS
        redacted = bool(state.tail) and state.tail[-1].redacted > 0
        if (long or large or redacted) and not slot.merging and not state.closed:
            slot.merging = True
            self._keep(self._in_background(slot, purge=redacted))

    async def settle(self) -> None:
        """Merge what this process wrote to, where that makes reading cheaper."""
        written, self._written = self._written, {}
        slots = [self._heads.slot(folder) for folder in written]
        await asyncio.gather(
            *(self.merge(s) for s in slots if s.state and not s.merging and len(s.state.tail) >= SETTLED)
        )

    async def _in_background(self, slot: Slot, *, purge: bool) -> None:
        try:
            for _ in range(_TRIES if purge else 1):
                if await self.merge(slot, purge=purge):
                    break
                await self._heads.fresh(slot.folder)
        finally:
            slot.merging = False
        if time.monotonic() - slot.collected > 2 * self._heads.trust:
            slot.collected = time.monotonic()
            if slot.state is not None:
                await self.collect(slot.state)

    async def merge(self, slot: Slot, *, purge: bool = False) -> bool:
        """
        Write a checkpoint of what is known of a conversation; False if somebody else did.

        With ``purge``, nothing is left of what was removed or redacted.
        """
        state = slot.state
        if state is None or state.closed or not (state.tail or purge):
            return True
        version, tag = state.version + 1, secrets.token_hex(4)
        try:
            kept, rows = await (self._purged(state) if purge else self._merged(state))
        except Gone:
            self._heads.forget(slot)
            return False
        made = await self.write(state, version, tag, rows)
        saved = checkpoint(
            state, secrets.token_bytes(8), (*kept, *made), version=version, dirty=state.dirty and not purge
        )
        if not await self._publish(state.place, saved):
            await self._clearing.segments(state.place, [segment.name for segment in made], state.key)
            self._heads.forget(slot)
            return False
        if await self._bucket.get(state.place.closed) is not None:
            # Whoever ended it may not have seen what we wrote.
            await self._clearing.empty(state.place, state.key)
            return False
        now = slot.state
        if now is not None and now.place == state.place and now.version < version:
            self._heads.advance(slot, rebased(now, saved), slot.known)
        if purge:
            await self._clearing.wipe(state.place, state.key, saved)
        return True

    async def _merged(self, state: State) -> tuple[list[Segment], list[list[Row]]]:
        """The segments that stay, and the rows of the one that takes the others' place."""
        kept, size = list(state.segments), state.size
        taken: list[Segment] = []
        while kept and kept[-1].size < _RATIO * size and kept[-1].size + size <= LARGEST:
            taken.insert(0, kept.pop())
            size += taken[0].size
        rows: dict[bytes, bytes | None] = {}
        for old in await asyncio.gather(*(self._segments.all(state.place, segment) for segment in taken)):
            rows.update(old)
        rows.update(state.rows)
        return kept, [_sorted(rows, keep_removed=bool(kept))]

    async def _purged(self, state: State) -> tuple[list[Segment], list[list[Row]]]:
        """The same, without any row that a newer one replaced. Segments are looked at one by one."""
        kept: list[Segment] = []
        written: list[list[Row]] = [_sorted(state.rows, keep_removed=False)]
        replaced = set(filter(None, map(_replaces, state.rows.items())))
        for segment in reversed(state.segments):
            rows = await self._segments.all(state.place, segment)
            left = {key: value for key, value in rows.items() if key not in replaced and value is not None}
            if len(left) == len(rows):
                kept.insert(0, segment)
            else:
                written.insert(0, _sorted(left, keep_removed=False))
            replaced.update(filter(None, map(_replaces, rows.items())))
        return kept, written

    async def write(
        self, state: State, version: int, tag: str, written: Sequence[list[Row]]
    ) -> list[Segment]:
        """Write segments, and for search the words in them."""
        made: list[Segment] = []
        for number, rows in enumerate(rows for rows in written if rows):
            name = segment_name(version, f"{tag}{number:02d}")
            segment, body, found = await asyncio.to_thread(_packed, name, rows)
            if segment.texts:
                await self._bucket.put(words_path(state.key, name), found)
            await self._bucket.create(state.place.segment(name), body)
            made.append(segment)
        return made

    async def _publish(self, place: Place, saved: Checkpoint) -> bool:
        path = place.checkpoint(saved.version)
        if await self._bucket.create(path, encode(saved)):
            return True
        body = await self._bucket.get(path)
        return body is not None and decode_checkpoint(body).id == saved.id

    async def collect(self, state: State, *, now: int | None = None) -> None:
        """
        Remove what checkpoints replaced long enough ago.

        How long is told by the clock of the storage alone: ``now``, or the time of the newest
        checkpoint.
        """
        place = state.place
        listing = Listing.of(await self._bucket.listed(place.top))
        parts = listing.incarnations.get(place.uid)
        if parts is None or not parts.checkpoints:
            return
        newest = max(parts.checkpoints)
        before = (now or parts.checkpoints[newest]) - round(2 * self._heads.trust * SECOND) - _MARGIN
        old = max((v for v, written in parts.checkpoints.items() if written <= before), default=0)
        if not old:
            return
        used: set[str] = set()
        covered = 0
        for version in sorted({old, newest, max((v for v in parts.checkpoints if v < newest), default=old)}):
            body = await self._bucket.get(place.checkpoint(version))
            if body is None:
                return
            saved = decode_checkpoint(body)
            covered = saved.n if version == old else covered
            used.update(segment.name for segment in saved.segments)
        gone = [place.log(n) for n in parts.logs if n <= covered]
        gone += [place.checkpoint(version) for version in parts.checkpoints if version < old]
        unused = [s for s in parts.segments if s not in used and parts.version_of(s) <= newest]
        await self._bucket.delete(gone)
        await self._clearing.segments(place, unused, state.key)


def pack_words(rows: Iterable[Row]) -> bytes:
    """The words that search finds events by, as a segment's word list has them."""
    found: set[str] = set()
    for key, value in rows:
        if key[:1] == EVENT and value is not None and (text := unpack_event(value).search_text()):
            found.update(words(text))
    return encode(sorted(found))


def _packed(name: str, rows: list[Row]) -> tuple[Segment, bytes, bytes]:
    segment, body = pack_segment(name, rows)
    return segment, body, pack_words(rows) if segment.texts else b""


def _sorted(rows: Rows, *, keep_removed: bool) -> list[Row]:
    return sorted((key, value) for key, value in rows.items() if keep_removed or value is not None)


def _replaces(row: Row) -> bytes | None:
    """The key of a row that may stand for an older one."""
    key, value = row
    if key[:1] == EVENT:
        return key if value is not None and unpack_event(value).type == REDACTED else None
    return key if key[:1] in (CALL, RECORD, TAG, TAGGED) else None
