"""
Full-text search.

Events are indexed in batches after their commit; what is not indexed yet is marked in the
conversation's row, in the same transaction as the events, so a crash leaves nothing out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from hashlib import blake2b

from holdfast.ids import ConversationKey
from holdfast.model.records import Hit
from holdfast.store.search import Query, folded, located
from holdfast.store.sqlite.batch import SEQ_BITS, Batch, Q

SLICE = 1000
_CONVERSATIONS = 64

Text = tuple[int, bytes, bytes]


def index_slice(batch: Batch) -> bool:
    """Index some of what is marked; True if there is more."""
    room = SLICE
    batch.flush()
    for pk, owner, first in batch.execute(Q.unindexed, (_CONVERSATIONS,)).fetchall():
        base, end = pk << SEQ_BITS, (pk + 1) << SEQ_BITS
        texts = batch.execute(Q.searchable_from, (base | first, end, room)).fetchall()
        mark = _owner_word(owner)
        batch.executemany(
            Q.index_text, [(n, folded(located(search, data)), mark) for n, search, data in texts]
        )
        done = len(texts) < room
        batch.execute(Q.mark_unindexed, (None if done else (texts[-1][0] & (1 << SEQ_BITS) - 1) + 1, pk))
        room -= len(texts)
        if room <= 0:
            break
    batch.forget_all()
    batch.unindexed = 0
    return batch.execute(Q.any_unindexed).fetchone() is not None


def unindex(batch: Batch, owner: str, texts: Iterable[Text]) -> None:
    """Remove texts from the index. They must be in it: the index believes what it is told."""
    mark = _owner_word(owner)
    batch.executemany(Q.unindex_text, [(n, folded(located(search, data)), mark) for n, search, data in texts])


def search(connection: sqlite3.Connection, owner: str, query: Query, limit: int) -> list[Hit]:
    """Events that match, best first."""
    *whole, last = query.words
    if query.phrase:
        terms = f'"{" ".join(query.words)}" *'
    else:
        terms = " AND ".join([*(f'"{word}"' for word in whole), f'"{last}" *'])
    match = f"{{words}} : ({terms}) AND {{owner}} : {_owner_word(owner)}"
    return [
        Hit(ConversationKey(owner, id), seq, query.snippet(located(where, data)))
        for id, seq, where, data in connection.execute(Q.search, (match, owner, limit))
    ]


def _owner_word(owner: str) -> str:
    return "o" + blake2b(owner.encode(), digest_size=8).hexdigest()
