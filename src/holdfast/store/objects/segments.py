"""
Segments: many rows in one object, sorted by key, in blocks that can be read on their own.

A checkpoint knows where each block begins, so a row costs one request and a range one for each
segment. Behind the blocks are fingerprints of the keys that are looked up one by one: most
lookups ask for what is not there (is this token new?), and need no block at all.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.names import Place
from holdfast.store.objects.packing import decoder, encode
from holdfast.store.objects.rows import EVENT, TAG, end_of, unpack_event

if TYPE_CHECKING:
    from holdfast.store.objects.state import State

BLOCK = 128 << 10
WHOLE = 512 << 10
"""A segment up to this size is read in one piece."""
CACHED = 64 << 20

Row = tuple[bytes, bytes | None]

_decode = decoder(list[Row])


class Gone(Exception):
    """An object that we knew of was collected: a newer checkpoint says what took its place."""


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """
    Where the rows of a segment are.

    ``blocks`` are the first key of each block and where it begins, ``last`` is the last key of
    all, and the fingerprints begin at ``prints``. ``texts`` says whether search has a word list
    of it.
    """

    name: str
    size: int
    blocks: tuple[tuple[bytes, int], ...]
    last: bytes
    prints: int
    texts: bool

    def bounds(self, start: bytes, end: bytes) -> range:
        """The numbers of the blocks that may have keys from ``start`` up to, but without, ``end``."""
        if start > self.last or end <= self.blocks[0][0]:
            return range(0)
        first = max(0, bisect_right(self.blocks, start, key=lambda block: block[0]) - 1)
        return range(first, bisect_left(self.blocks, end, key=lambda block: block[0]))

    def offset(self, number: int) -> int:
        """Where a block begins, or where the one before it ends."""
        return self.blocks[number][1] if number < len(self.blocks) else self.prints


def pack_segment(name: str, rows: Sequence[Row]) -> tuple[Segment, bytes]:
    """A segment of rows that are sorted by key."""
    body = bytearray()
    blocks: list[tuple[bytes, int]] = []
    waiting: list[Row] = []
    size, texts = 0, False
    for row in rows:
        waiting.append(row)
        key, value = row
        size += len(key) + len(value or b"")
        texts = texts or has_text(row)
        if size >= BLOCK:
            blocks.append((waiting[0][0], len(body)))
            body += encode(waiting)
            waiting, size = [], 0
    if waiting:
        blocks.append((waiting[0][0], len(body)))
        body += encode(waiting)
    prints = len(body)
    body += _pack_prints(key for key, _ in rows)
    return Segment(name, len(body), tuple(blocks), rows[-1][0], prints, texts), bytes(body)


def unpack_blocks(segment: Segment, body: bytes, numbers: range) -> list[dict[bytes, bytes | None]]:
    """The rows of some blocks, from the bytes that begin with the first of them."""
    start = segment.offset(numbers.start)
    return [
        dict(_decode(body[segment.offset(number) - start : segment.offset(number + 1) - start]))
        for number in numbers
    ]


def has_text(row: Row) -> bool:
    """Whether a row is an event that search knows."""
    key, value = row
    return key[:1] == EVENT and value is not None and unpack_event(value).text is not None


def _pack_prints(keys: Iterable[bytes]) -> bytes:
    prints = array("I", sorted({crc32(key) for key in keys if key[:1] not in (EVENT, TAG)}))
    return _little(prints).tobytes()


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _has_print(prints: array[int], key: bytes) -> bool:
    mark = crc32(key)
    at = bisect_left(prints, mark)
    return at < len(prints) and prints[at] == mark


class _Cache:
    """What was read last, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[tuple[str, int], tuple[object, int]] = OrderedDict()

    def get(self, path: str, number: int) -> object:
        if (kept := self._kept.get((path, number))) is None:
            return None
        self._kept.move_to_end((path, number))
        return kept[0]

    def put(self, path: str, number: int, value: object, size: int) -> None:
        if size > self._limit // 8 or (path, number) in self._kept:
            return
        self._kept[path, number] = value, size
        self._size += size
        while self._size > self._limit:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._size -= dropped


_PRINTS = -1


class Segments:
    """
    Reads rows from segments. They never change, so what was read stays true.

    Raises:
        Gone: From every method, if a segment is not there any more.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._cache = _Cache(CACHED)

    async def get(self, state: State, keys: Collection[bytes]) -> dict[bytes, bytes]:
        """The rows of these keys that a conversation has."""
        rows = state.rows
        missing = [key for key in keys if key not in rows]
        found: dict[bytes, bytes | None] = {}
        if missing:
            for some in await asyncio.gather(*(self._find(state.place, s, missing) for s in state.segments)):
                found.update(some)
        found.update((key, rows[key]) for key in keys if key in rows)
        return {key: value for key, value in found.items() if value is not None}

    async def scan(self, state: State, start: bytes, end: bytes) -> dict[bytes, bytes]:
        """The rows of a conversation from ``start`` up to, but without, ``end``, by key."""
        found: dict[bytes, bytes | None] = {}
        for some in await asyncio.gather(*(self.part(state.place, s, start, end) for s in state.segments)):
            found.update(some)
        found.update((key, value) for key, value in state.rows.items() if start <= key < end)
        return {key: value for key, value in sorted(found.items()) if value is not None}

    async def under(self, state: State, prefix: bytes) -> dict[bytes, bytes]:
        """The rows of a conversation whose keys start with ``prefix``, by key."""
        return await self.scan(state, prefix, end_of(prefix))

    async def all(self, place: Place, segment: Segment) -> dict[bytes, bytes | None]:
        """Every row of a segment, by key, with those that say that something was removed."""
        rows: dict[bytes, bytes | None] = {}
        for block in await self._blocks(place, segment, range(len(segment.blocks))):
            rows.update(block)
        return rows

    async def _find(
        self, place: Place, segment: Segment, keys: Collection[bytes]
    ) -> dict[bytes, bytes | None]:
        inside = [key for key in keys if segment.blocks[0][0] <= key <= segment.last]
        if inside and segment.size > WHOLE:
            prints = await self._prints(place, segment)
            inside = [key for key in inside if key[:1] in (EVENT, TAG) or _has_print(prints, key)]
        numbers = sorted({segment.bounds(key, key + b"\0").start for key in inside})
        found: dict[bytes, bytes | None] = {}
        for [block] in await asyncio.gather(
            *(self._blocks(place, segment, range(n, n + 1)) for n in numbers)
        ):
            found.update((key, block[key]) for key in inside if key in block)
        return found

    async def part(
        self, place: Place, segment: Segment, start: bytes, end: bytes
    ) -> dict[bytes, bytes | None]:
        """The rows of one segment from ``start`` up to, but without, ``end``; newer ones may replace them."""
        numbers = segment.bounds(start, end)
        blocks = await self._blocks(place, segment, numbers) if numbers else []
        return {key: value for block in blocks for key, value in block.items() if start <= key < end}

    async def _blocks(
        self, place: Place, segment: Segment, numbers: range
    ) -> list[dict[bytes, bytes | None]]:
        path = place.segment(segment.name)
        kept = [self._cache.get(path, number) for number in numbers]
        if all(block is not None for block in kept):
            return kept  # type: ignore[return-value]
        wanted = range(len(segment.blocks)) if segment.size <= WHOLE else numbers
        start, end = segment.offset(wanted.start), segment.offset(wanted.stop)
        body = await self._bucket.get_range(path, start, end)
        if body is None:
            raise Gone(path)
        blocks = unpack_blocks(segment, body, wanted)
        for number, block in zip(wanted, blocks, strict=True):
            self._cache.put(path, number, block, segment.offset(number + 1) - segment.offset(number))
        return blocks[numbers.start - wanted.start : numbers.stop - wanted.start]

    async def _prints(self, place: Place, segment: Segment) -> array[int]:
        path = place.segment(segment.name)
        prints = self._cache.get(path, _PRINTS)
        if prints is None:
            body = b""
            if segment.prints < segment.size:
                found = await self._bucket.get_range(path, segment.prints, segment.size)
                if found is None:
                    raise Gone(path)
                body = found
            prints = _little(array("I", body))
            self._cache.put(path, _PRINTS, prints, len(body))
        return prints  # type: ignore[return-value]
