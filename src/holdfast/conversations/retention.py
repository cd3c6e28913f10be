"""Removing what is old."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.conversations.info import Purged
from holdfast.errors import NotFound, StaleHeader
from holdfast.model import Erased, Header
from holdfast.store import Store
from holdfast.store.ops import check_number

__all__ = ["PurgeProgress", "purge"]

_PAGE = 200


class PurgeProgress(msgspec.Struct, frozen=True):
    """How far a purge is."""

    done: int
    all: int


async def purge(
    store: Store,
    owner: str,
    *,
    before: int,
    keep: int = 0,
    dry_run: bool = True,
    on_progress: Callable[[PurgeProgress], None] | None = None,
) -> Purged:
    """
    Remove the conversations of an owner that were last active before a time, in microseconds since 1970.

    The ``keep`` most active ones stay however old they are, and so does one that an agent works on. One that
    becomes active meanwhile is left alone.

    Raises:
        InvalidOp: ``keep`` is negative.
    """
    check_number("keep", keep, least=0)
    old = [header for header in (await _all(store, owner))[keep:] if header.activity < before]
    old = [header for header in old if header.lease is None]
    if dry_run:
        return Purged(tuple(header.key.id for header in old), Erased(), True)
    gone: list[str] = []
    erased = Erased()
    for done, header in enumerate(old, 1):
        receipt = await _remove(store, header, before)
        if receipt.conversations:
            gone.append(header.key.id)
        erased += receipt
        if on_progress is not None:
            on_progress(PurgeProgress(done, len(old)))
    return Purged(tuple(gone), erased, False)


async def _remove(store: Store, header: Header, before: int) -> Erased:
    try:
        return await store.delete(header.key, when=header.revision)
    except StaleHeader:
        pass
    # A list may lag behind: look once more at the conversation itself.
    try:
        header = await store.header(header.key)
        if header.activity < before and header.lease is None:
            return await store.delete(header.key, when=header.revision)
    except (NotFound, StaleHeader):
        pass
    return Erased()


async def _all(store: Store, owner: str) -> list[Header]:
    """By activity, but read by creation: one that becomes active meanwhile is not skipped."""
    headers: list[Header] = []
    cursor = None
    while page := await store.headers(owner, order="created", before=cursor, limit=_PAGE):
        headers += page
        cursor = (page[-1].created_at, page[-1].key.id)
    return sorted(headers, key=lambda header: (header.activity, header.key.id), reverse=True)
