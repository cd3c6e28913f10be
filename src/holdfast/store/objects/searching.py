"""
Search: the word lists of segments say where to look, and the events themselves what is found.

What is not merged yet has no word list; its conversations carry an entry that says so.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import OrderedDict, defaultdict

from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Hit
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.heads import Heads
from holdfast.store.objects.index import FRESH, WORDS, listed_under, pointer
from holdfast.store.objects.packing import decoder
from holdfast.store.objects.reads import Reads
from holdfast.store.objects.rows import EVENT, end_of, seq_of, unpack_event
from holdfast.store.objects.segments import Segments
from holdfast.store.objects.state import State
from holdfast.store.search import Query

_WORDS = 2_000_000

_decode = decoder(list[str])

Match = tuple[tuple[int, ConversationKey, int], str]
"""Where an event that matches is, beginning with its time, and its text."""


class Searches:
    """Answers about the texts of an owner's events."""

    def __init__(self, bucket: Bucket, heads: Heads, segments: Segments, reads: Reads) -> None:
        self._bucket = bucket
        self._heads = heads
        self._segments = segments
        self._reads = reads
        self._lists: OrderedDict[str, list[str]] = OrderedDict()
        self._kept = 0

    async def search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        listed, fresh = await asyncio.gather(
            self._bucket.listed(listed_under(owner, WORDS)), self._bucket.listed(listed_under(owner, FRESH))
        )
        lists = await asyncio.gather(*(self._words(stat.path) for stat in listed))
        known: dict[str, dict[str, bool]] = defaultdict(dict)
        for stat, words in zip(listed, lists, strict=True):
            segment = stat.path.rpartition("/")[2].partition("-")[2]
            known[pointer(stat.path).folder][segment] = _may_match(query, words)
        folders = {folder for folder, segments in known.items() if any(segments.values())}
        folders.update(pointer(stat.path).folder for stat in fresh)
        states = await self._heads.states(sorted(folders))
        found = await asyncio.gather(
            *(self._matches(state.key, query, known[state.place.folder]) for state in states)
        )
        best = sorted((match for some in found for match in some), reverse=True)[:limit]
        return [Hit(key, seq, query.snippet(text)) for (_, key, seq), text in best]

    async def _words(self, path: str) -> list[str]:
        """The words of a segment, sorted; none if it is gone."""
        if path in self._lists:
            self._lists.move_to_end(path)
            return self._lists[path]
        body = await self._bucket.get(path)
        words = _decode(body) if body else []
        if path not in self._lists:
            self._lists[path] = words
            self._kept += 1 + len(words)
        while self._kept > _WORDS:
            self._kept -= 1 + len(self._lists.popitem(last=False)[1])
        return words

    async def _matches(self, key: ConversationKey, query: Query, known: dict[str, bool]) -> list[Match]:
        async def read(state: State) -> list[Match]:
            # A segment that was written after its word list was looked for is read.
            segments = [s for s in state.segments if s.texts and known.get(s.name, True)]
            parts = await asyncio.gather(
                *(self._segments.part(state.place, segment, EVENT, end_of(EVENT)) for segment in segments)
            )
            rows = {row: value for part in parts for row, value in part.items()}
            rows.update((row, value) for row, value in state.rows.items() if row[:1] == EVENT)
            matches = {row: match for row, value in rows.items() if (match := _match(query, row, value, key))}
            # An older segment may have what was redacted since.
            current = await self._segments.get(state, matches)
            return [match for row, match in matches.items() if current.get(row) == rows[row]]

        try:
            return await self._reads.of(key, read)
        except NotFound:
            return []


def _match(query: Query, row: bytes, value: bytes | None, key: ConversationKey) -> Match | None:
    if value is None:
        return None
    event = unpack_event(value)
    text = event.search_text()
    return ((event.at, key, seq_of(row)), text) if text and query.matches(text) else None


def _may_match(query: Query, words: list[str]) -> bool:
    *whole, last = query.words
    at = bisect_left(words, last)
    if at == len(words) or not words[at].startswith(last):
        return False
    return all((at := bisect_left(words, word)) < len(words) and words[at] == word for word in whole)
