"""Reading: each function asks the servers and gives what the contract says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TypeVar

import msgspec

from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import OPEN, Call, CallStatus, Event, Found, Header, Loaded, Record
from holdfast.store.backend import Cursor, Order
from holdfast.store.redis import codec, scripts
from holdfast.store.redis.keys import Keys, Owner, Place
from holdfast.store.redis.nodes import Nodes
from holdfast.store.search import located

_RECORDS_A_PAGE = 1000
_TAGS_A_PAGE = 1000

T = TypeVar("T")


class Page(msgspec.Struct, frozen=True):
    """
    Some events of a log as they are kept, from ``first`` on, out of a range that ends at ``last``.

    ``base`` and ``cuts`` tell whether it is still the same log, and whether something in it was removed.
    """

    base: bytes
    first: int
    last: int
    rows: list[bytes]
    end: int
    cuts: bytes

    @property
    def next(self) -> int:
        """The seq after the events of this page."""
        return self.first + len(self.rows)


class Reads:
    """Everything that can be read of a store."""

    def __init__(self, nodes: Nodes, keys: Keys) -> None:
        self._nodes = nodes
        self._keys = keys

    # One conversation

    async def header(self, key: ConversationKey) -> Header:
        place = self._keys.place(key)
        fields = await self._nodes.call(place.shard, b"HMGET", place.head, *codec.HEADER_FIELDS)
        if (found := codec.header(key, fields)) is None:
            raise NotFound(key)
        return found

    async def load(self, key: ConversationKey, names: Sequence[tuple[str, str]]) -> Loaded:
        place = self._keys.place(key)
        answer = await self._nodes.run(
            place.shard,
            scripts.LOAD,
            (place.head, place.log, place.open),
            b"%d" % len(codec.HEADER_FIELDS),
            *codec.HEADER_FIELDS,
            *(_record_name(*name) for name in names),
        )
        if not answer:
            raise NotFound(key)
        fields, calls, records, base, rows = answer
        header = codec.header(key, fields)
        assert header is not None
        events = [codec.event(seq, row) for seq, row in enumerate(rows, header.tail)]
        if len(events) < header.last_seq - header.tail + 1:
            events += await self._rest(key, events[-1].seq, header.last_seq + 1, base)
        found = {
            name: codec.record(_record_name(*name), *record)
            for name, record in zip(names, records, strict=True)
            if record[0] is not None
        }
        return Loaded(header, events, [codec.call(key, *call) for call in calls], found)

    async def events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]:
        page = await self.page(self._keys.place(key), after, before, limit)
        if page is None:
            raise NotFound(key)
        events = [codec.event(seq, row) for seq, row in enumerate(page.rows, page.first)]
        if events and events[-1].seq < page.last:
            events += await self._rest(key, events[-1].seq, page.last + 1, page.base)
        return events

    async def texts(self, key: ConversationKey, after: int, before: int | None) -> dict[int, str]:
        texts: dict[int, str] = {}
        base = b""
        while True:
            page = await self.page(self._keys.place(key), after, before, None, base)
            if page is None:
                raise NotFound(key)
            for seq, row in enumerate(page.rows, page.first):
                if (where := codec.search_text(row)) is not None:
                    texts[seq] = located(*where)
            if page.next > page.last:
                return texts
            after, base = page.next - 1, page.base

    async def page(
        self, place: Place, after: int, before: int | None, limit: int | None = None, base: bytes = b""
    ) -> Page | None:
        """A part of a log that is not too large to be answered at once; None if there is no such log."""
        bounds = (str(after), *("" if bound is None else str(bound) for bound in (before, limit)))
        answer = await self._nodes.run(
            place.shard, scripts.EVENTS, (place.head, place.log), *map(str.encode, bounds), base
        )
        if not answer:
            return None
        found, first, last, rows, end, cuts = answer
        return Page(found, int(first), int(last), rows, int(end), cuts)

    async def newest(self, key: ConversationKey, before: int | None, limit: int, base: bytes) -> Page | None:
        """The last events before a seq; fewer than asked for if they are large."""
        while True:
            page = await self.page(self._keys.place(key), 0, before, limit, base)
            if page is None or page.next > page.last:
                return page
            limit = max(limit // 8, 1)

    async def _rest(self, key: ConversationKey, after: int, before: int, base: bytes) -> list[Event]:
        place, events = self._keys.place(key), []
        while after + 1 < before:
            page = await self.page(place, after, before, None, base)
            if page is None:
                raise NotFound(key)
            events += [codec.event(seq, row) for seq, row in enumerate(page.rows, page.first)]
            after = events[-1].seq
        return events

    async def calls(
        self, key: ConversationKey, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]:
        rows: list[list[bytes]] = []
        if call_ids is not None:
            for some in _parts([*dict.fromkeys(call_ids)], 1000):
                rows += await self._calls(key, b"some", *map(str.encode, some))
            rows.sort(key=lambda row: codec.ordinal(row[1]))
        elif status is not None and OPEN.issuperset(status):
            rows = await self._calls(key, b"open")
        else:
            while page := await self._calls(
                key, b"all", b"%d" % codec.ordinal(rows[-1][1]) if rows else b"0"
            ):
                rows += page
        calls = [codec.call(key, *row) for row in rows]
        return [call for call in calls if status is None or call.status in status]

    async def _calls(self, key: ConversationKey, which: bytes, *args: bytes) -> list[list[bytes]]:
        place = self._keys.place(key)
        answer = await self._nodes.run(
            place.shard, scripts.CALLS, (place.head, place.names, place.open), which, *args
        )
        if not answer:
            raise NotFound(key)
        rows: list[list[bytes]] = answer[0]
        return rows

    async def records(
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
        found: list[Record] = []
        if keys is not None:
            names = [_record_name(collection, name) for name in sorted(set(keys), reverse=reverse)]
            while True:
                some, examined = await self._records(key, b"", *names[:_RECORDS_A_PAGE])
                found += some
                names = names[examined:]
                if not names or (limit is not None and len(found) >= limit):
                    return found[:limit]
        low, high = _bounds(collection, prefix, after, before)
        while True:
            room = _RECORDS_A_PAGE if limit is None else min(_RECORDS_A_PAGE, limit - len(found))
            ends = (b"ZREVRANGEBYLEX", high, low) if reverse else (b"ZRANGEBYLEX", low, high)
            some, _ = await self._records(key, *ends, b"%d" % room)
            found += some
            if not some or len(found) == limit:
                return found
            edge = b"(r" + _record_name(collection, found[-1].key)
            low, high = (low, edge) if reverse else (edge, high)

    async def _records(self, key: ConversationKey, *args: bytes) -> tuple[list[Record], int]:
        place = self._keys.place(key)
        answer = await self._nodes.run(place.shard, scripts.RECORDS, (place.head, place.names), *args)
        if not answer:
            raise NotFound(key)
        rows = answer[0]
        return [codec.record(*row) for row in rows if row[1] is not None], len(rows)

    async def inventory(self, key: ConversationKey) -> tuple[list[str], list[tuple[str, str, str]]]:
        place = self._keys.place(key)
        answer = await self._nodes.run(place.shard, scripts.INVENTORY, (place.head, place.names))
        if not answer:
            raise NotFound(key)
        collections, members = answer
        tags = [tuple(member[1:].decode().split("\0")) for member in members]
        return [name.decode() for name in collections], [(name, value, ref) for name, value, ref in tags]

    # The conversations of an owner

    async def headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        of = self._keys.owner(owner)
        index = of.active if order == "activity" else of.born
        if tag is not None:
            return await self._tagged(owner, of, tag, index, before, limit)
        time, id = (b"", b"") if before is None else (b"%d" % before[0], before[1].encode())
        rows = await self._nodes.run(
            of.shard, scripts.HEADERS, (index,), time, id, b"%d" % limit, of.heads, *codec.HEADER_FIELDS
        )
        found = (codec.header(ConversationKey(owner, id.decode()), fields) for id, fields in rows)
        return [header for header in found if header is not None]

    async def _tagged(
        self, owner: str, of: Owner, tag: tuple[str, str], index: bytes, before: Cursor | None, limit: int
    ) -> list[Header]:
        ids = list(dict.fromkeys([id async for id, _ in self._found(of, *tag)]))
        places: list[Cursor] = []
        for some in _parts(ids, 1000):
            scores = await self._nodes.call(of.shard, b"ZMSCORE", index, *some)
            places += [
                (int(float(score)), id.decode())
                for id, score in zip(some, scores, strict=True)
                if score is not None
            ]
        newest = sorted((p for p in places if before is None or p < before), reverse=True)[:limit]
        found = await asyncio.gather(
            *(self.header(ConversationKey(owner, id)) for _, id in newest), return_exceptions=True
        )
        headers = []
        for header in found:
            if isinstance(header, Header):
                headers.append(header)
            elif not isinstance(header, NotFound):
                raise header
        return headers

    async def find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        found: list[Found] = []
        async for id, ref in self._found(self._keys.owner(owner), name, value, limit):
            found.append(Found(ConversationKey(owner, id.decode()), ref.decode()))
        return found

    async def _found(
        self, of: Owner, name: str, value: str, limit: int | None = None
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        beginning, last, count = f"{name}\0{value}\0".encode(), b"", 0
        while limit is None or count < limit:
            room = _TAGS_A_PAGE if limit is None else min(_TAGS_A_PAGE, limit - count)
            page = await self._nodes.run(
                of.shard, scripts.FIND, (of.tags,), beginning, last, b"%d" % room, of.heads
            )
            for id, ref, _ in page:
                yield id, ref
            if len(page) < room:
                return
            last, count = page[-1][2], count + len(page)

    async def open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]:
        of = self._keys.owner(owner)
        rows = await self._nodes.run(
            of.shard,
            scripts.WAITING,
            (of.waiting,),
            f" {' '.join(status)} ".encode(),
            b"%d" % limit,
            of.heads,
        )
        return [codec.call(ConversationKey(owner, id.decode()), *row) for id, *row in rows]

    # All shards

    async def owners(self, after: str, limit: int) -> list[str]:
        low = b"(" + after.encode() if after else b"-"
        pages = await asyncio.gather(
            *(
                self._nodes.call(
                    shard, b"ZRANGEBYLEX", shard.owners, low, b"+", b"LIMIT", b"0", b"%d" % limit
                )
                for shard in self._keys.shards
            )
        )
        return sorted(owner.decode() for page in pages for owner in page)[:limit]

    async def due(self, now: bytes, limit: int) -> list[Call]:
        pages = await asyncio.gather(
            *(
                self._nodes.run(shard, scripts.DUE, (shard.due,), now, b"%d" % limit, shard.heads)
                for shard in self._keys.shards
            )
        )
        calls = [
            codec.call(ConversationKey(owner.decode(), id.decode()), *row)
            for page in pages
            for owner, id, *row in page
        ]
        return sorted(calls, key=lambda call: (call.expires_at, call.key, call.call_id))[:limit]


def _record_name(collection: str, name: str) -> bytes:
    return f"{collection}\0{name}".encode()


def _bounds(collection: str, prefix: str, after: str | None, before: str | None) -> tuple[bytes, bytes]:
    """The ends of a range of names, as the server takes them."""
    begin = b"r" + _record_name(collection, prefix)
    low, high = b"[" + begin, b"(" + begin + b"\xff"
    if after is not None and (edge := b"r" + _record_name(collection, after)) >= begin:
        low = b"(" + edge
    if before is not None:
        high = min(high, b"(r" + _record_name(collection, before))
    return low, high


def _parts(items: Sequence[T], each: int) -> list[Sequence[T]]:
    return [items[first : first + each] for first in range(0, len(items), each)]
