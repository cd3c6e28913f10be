"""
Full-text search.

Words are made by Holdfast, the same for every store, and kept in a table of their own: one row for a
word in 64 consecutive events, with a bit for each of them. The servers' own full-text indexes leave
out short words, and split texts in other places.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from types import SimpleNamespace

from holdfast.ids import ConversationKey
from holdfast.model.records import Hit
from holdfast.store.mysql.driver import Pool, Session
from holdfast.store.mysql.literals import Part, written
from holdfast.store.search import Query, located, words
from holdfast.store.sql.database import Row
from holdfast.store.sql.indexing import CONVERSATIONS_A_SLICE, TextIndex

EVENTS_A_SLICE = 200
BYTES_A_SLICE = 1 << 18
WORDS_AT_ONCE = 2000
WORDS_JOINED = 6

_MAX_WORD = 40


class Index(TextIndex):
    """The words of events' texts, and how they are found."""

    def __init__(self, pool: Pool, queries: SimpleNamespace) -> None:
        self._pool = pool
        self._q = queries

    async def search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        """Events that match, newest first."""
        await self.settle(owner=owner)
        found, hits, skip = self._found(owner, query), list[Hit](), 0
        while len(hits) < limit:
            rows = await self._pool.fetch(self._q.search, found=found, owner=owner, limit=limit, skip=skip)
            for id, seq, search, data in rows:
                text = located(search, data)
                # Long words are cut in the index, and neither places nor all words were asked for.
                if query.matches(text):
                    hits.append(Hit(ConversationKey(owner, id), seq, query.snippet(text)))
            if len(rows) < limit:
                break
            skip += limit
        return hits[:limit]

    def _found(self, owner: str, query: Query) -> Part:
        """Where the words occur: the last one as a beginning, and the longest of the others."""
        *whole, last = (_cut(word) for word in query.words)
        mark = _mark(owner)
        found = written(self._q.search_beginning, mark=mark, first=last, until=_after(last))
        for word in sorted(set(whole), key=len, reverse=True)[:WORDS_JOINED]:
            found = written(self._q.search_word, found=Part(found), mark=mark, word=word)
        return Part(found)

    async def _marked(self, owner: str | None, pks: Sequence[int] | None, after: int) -> list[Row]:
        values = {"owner": owner, "pks": None if pks is None else list(pks), "after": after}
        return await self._pool.fetch(self._q.unindexed, **values, limit=CONVERSATIONS_A_SLICE)

    async def _index(self, marked: Sequence[Row]) -> None:
        ends = {row[0]: min(row[3], row[2] + EVENTS_A_SLICE - 1) for row in marked}
        found = await self._pool.read(
            *(
                written(
                    self._q.unindexed_texts, pk=row[0], first=row[2], last=ends[row[0]], bytes=BYTES_A_SLICE
                )
                for row in marked
            )
        )
        for row, result in zip(marked, found, strict=True):
            if sum(len(text[3]) for text in result.rows) >= BYTES_A_SLICE:
                ends[row[0]] = result.rows[-1][1]
        owners = {row[0]: _mark(row[1]) for row in marked}
        texts = [row for result in found for row in result.rows]
        statements = await asyncio.to_thread(self._written, owners, texts)

        async def work(session: Session) -> None:
            for statement in statements:
                await session.run(statement)
            places = [row[5] for row in marked]
            [locked] = await session.run(written(self._q.index_lock, places=places))
            now = {row[0]: row[1:] for row in locked.rows}
            if any(now.get(row[0], (0, 0, 0))[1:] != (row[2], row[4]) for row in marked):
                raise _Changed
            await session.finish(
                *(
                    written(self._q.indexed, pk=pk, next=None if now[pk][0] == end else end + 1)
                    for pk, end in ends.items()
                )
            )

        try:
            await self._pool.transaction(work)
        except _Changed:
            # One of them was redacted, removed, or indexed by somebody else.
            if len(marked) > 1:
                for row in marked:
                    await self._index([row])

    def _written(self, owners: dict[int, bytes], texts: Sequence[Row]) -> list[bytes]:
        """The statements that index texts, made beside the event loop: there are many words."""
        rows = _rows(owners, texts)
        return [
            written(self._q.index_words, rows=rows[start : start + WORDS_AT_ONCE])
            for start in range(0, len(rows), WORDS_AT_ONCE)
        ]


class _Changed(Exception):
    """What was read is not what is there."""


def _rows(owners: dict[int, bytes], texts: Sequence[Row]) -> list[tuple[bytes, bytes, int, int, int]]:
    """The rows of texts, in the order of their key, so that no two writers wait for each other."""
    bits: dict[tuple[bytes, bytes, int, int], int] = defaultdict(int)
    for conversation, seq, search, data in texts:
        for word in {_cut(word) for word in words(located(search, data))}:
            bits[owners[conversation], word, conversation, seq >> 6] |= 1 << (seq & 63)
    return [(*key, each) for key, each in sorted(bits.items())]


def _cut(word: str) -> bytes:
    return word.encode()[:_MAX_WORD]


def _after(beginning: bytes) -> bytes | None:
    """The least bytes above all that start with these; None if there are none."""
    kept = beginning.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def _mark(owner: str) -> bytes:
    return blake2b(owner.encode(), digest_size=8).digest()
