"""
Settling: what follows the commits in batches, for lists and for full-text search.

A commit that only appends writes nothing but its events. What the conversation's row and the index
do not know of yet is marked in the row, in the same transaction as the first such event, so a crash
leaves nothing out.
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

Text = tuple[int, bytes, bytes]


def settle_slice(batch: Batch) -> bool:
    """Settle some of what is marked; True if there is more."""
    room = SLICE
    batch.flush()
    for pk, owner, id, first, last_seq, activity in batch.execute(Q.unsettled, (SLICE,)).fetchall():
        base, end = pk << SEQ_BITS, (pk + 1) << SEQ_BITS
        texts = batch.execute(Q.searchable_from, (base | first, end, room)).fetchall()
        word = _owner_word(owner)
        batch.executemany(Q.index_text, [(n, folded(located(where, data)), word) for n, where, data in texts])
        # A full slice may have more behind it, which is marked from there on.
        rest = None if len(texts) < room else (texts[-1][0] & (1 << SEQ_BITS) - 1) + 1
        batch.execute(Q.settle, (*batch.last_event(pk, last_seq, activity), rest, pk))
        batch.settled(ConversationKey(owner, id), rest)
        room -= len(texts)
        if room <= 0:
            break
    batch.unsettled = 0
    return batch.execute(Q.any_unsettled).fetchone() is not None


def forget_index(batch: Batch) -> None:
    """
    Empty the index and mark every conversation, so that settling makes it anew.

    Entries are removed by their words. Should a new Python fold some letter in another way, an old
    entry would stay; after this, nothing does.
    """
    batch.flush()
    batch.execute(Q.empty_index)
    batch.execute(Q.mark_all_unsettled)
    batch.forget_all()


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
