"""
Full-text search.

Texts are indexed after their commit, in batches; what is not indexed yet is marked in the
conversation's row by the commit itself. The index holds words as Holdfast makes them for every
store, not as a parser of the server would.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from types import SimpleNamespace

from holdfast.ids import ConversationKey
from holdfast.model.records import Hit
from holdfast.store.search import Query, located, words
from holdfast.store.sql.database import Database, Row
from holdfast.store.sql.indexing import CONVERSATIONS_A_SLICE, TextIndex

TEXTS_A_SLICE = 200
BYTES_A_SLICE = 1 << 20

_MAX_WORD = 200
_MAX_BYTES = 1_000_000
_MAX_POSITION = 16_383
_MAX_POSITIONS = 255
_LONG = "'@long'"


class Index(TextIndex):
    """The words of events' texts, and how they are found."""

    def __init__(self, database: Database, queries: SimpleNamespace) -> None:
        self._fetch = database.fetch
        self._q = queries

    async def search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        """Events that match, newest first."""
        await self.settle(owner=owner)
        terms, hits, skip = _terms(owner, query), list[Hit](), 0
        # Long words are cut in the index, and places in long texts are not kept.
        exact = not query.phrase and all(len(word) < _MAX_WORD for word in query.words)
        while len(hits) < limit:
            rows = await self._fetch(self._q.search, words=terms, owner=owner, limit=limit, skip=skip)
            for id, seq, search, data in rows:
                text = located(search, data)
                if exact or query.matches(text):
                    hits.append(Hit(ConversationKey(owner, id), seq, query.snippet(text)))
            if len(rows) < limit:
                break
            skip += limit
        return hits[:limit]

    async def _marked(self, owner: str | None, pks: Sequence[int] | None, after: int) -> list[Row]:
        return await self._fetch(
            self._q.unindexed, owner=owner, pks=pks, after=after, limit=CONVERSATIONS_A_SLICE
        )

    async def _index(self, marked: Sequence[Row]) -> None:
        rows = await self._fetch(
            self._q.unindexed_texts,
            pk=[row[0] for row in marked],
            first=[row[2] for row in marked],
            last=[row[3] for row in marked],
            limit=TEXTS_A_SLICE,
            bytes=BYTES_A_SLICE,
        )
        texts: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            texts[row[0]].append(row)
        vectors = await asyncio.to_thread(_vectors, [row[1] for row in marked], rows)
        await self._fetch(
            self._q.index_texts,
            pk=[row[0] for row in marked],
            first=[row[2] for row in marked],
            until=[_until(row, texts[i]) for i, row in enumerate(marked, 1)],
            redactions=[row[4] for row in marked],
            text_i=[row[0] for row in rows],
            seq=[row[1] for row in rows],
            at=[row[2] for row in rows],
            words=vectors,
        )


def _until(marked: Row, texts: Sequence[Row]) -> int:
    """The seq up to which a conversation is indexed with these texts."""
    full = len(texts) == TEXTS_A_SLICE or sum(len(row[4]) for row in texts) >= BYTES_A_SLICE
    until: int = texts[-1][1] if full else marked[3]
    return until


def _vectors(owners: Sequence[str], rows: Sequence[Row]) -> list[str]:
    return [vector(owners[i - 1], located(search, data)) for i, _, _, search, data in rows]


def vector(owner: str, text: str) -> str:
    """
    The words of a text as a ``tsvector`` is written, and the owner as one more word.

    Words, and the places where they stand, are kept within what a vector can hold. A text for which
    that is too little is marked: a phrase can't be looked for by places there.
    """
    every = words(text)
    if len(every) <= _MAX_POSITIONS and max(map(len, every), default=0) <= _MAX_WORD:
        return _short_vector(owner, every)
    long = len(every) > _MAX_POSITION
    places: dict[str, list[str]] = {word[:_MAX_WORD]: [] for word in dict.fromkeys(every)}
    if not long:
        for place, word in enumerate(every, 1):
            places[word[:_MAX_WORD]].append(str(place))
        long = any(len(at) > _MAX_POSITIONS for at in places.values())
    written = [_mark(owner), _LONG] if long else [_mark(owner)]
    size = 0
    for word, at in places.items():
        size += len(word.encode()) + 2 * len(at) + 4
        if size > _MAX_BYTES:
            break
        written.append(f"'{word}':{','.join(at[:_MAX_POSITIONS])}" if at else f"'{word}'")
    return " ".join(written)


def _short_vector(owner: str, every: Sequence[str]) -> str:
    """The same for few and short words, which is nearly every text, and cheaper."""
    written: dict[str, str] = {}
    for place, word in enumerate(every, 1):
        written[word] = f"{written[word]},{place}" if word in written else f"'{word}':{place}"
    return " ".join((_mark(owner), *written.values()))


def _terms(owner: str, query: Query) -> str:
    """A query as a ``tsquery`` is written. Words are letters and digits, so nothing has to be escaped."""
    cut = [f"'{word[:_MAX_WORD]}'" for word in query.words]
    cut[-1] += ":*"
    every = " & ".join(cut)
    if query.phrase:
        every = f"({' <-> '.join(cut)}) | ({_LONG} & {every})"
    return f"{_mark(owner)} & ({every})"


def _mark(owner: str) -> str:
    """The owner as a word that no text has."""
    return f"'@{blake2b(owner.encode(), digest_size=12).hexdigest()}'"
