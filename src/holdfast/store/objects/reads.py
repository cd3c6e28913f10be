"""Reading one conversation: its state, and the rows that the question is about."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from holdfast.errors import StoreUnavailable
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Event, Loaded, Record
from holdfast.store.objects.heads import Heads
from holdfast.store.objects.names import folder
from holdfast.store.objects.rows import (
    CALL,
    RECORD,
    TAG,
    CallRow,
    EventRow,
    event_key,
    key_of,
    names_of,
    seq_of,
    unpack_call,
    unpack_event,
    unpack_record,
)
from holdfast.store.objects.segments import Gone, Segments
from holdfast.store.objects.state import State

T = TypeVar("T")

_TRIES = 20


class Reads:
    """Answers about one conversation, each from one moment."""

    def __init__(self, heads: Heads, segments: Segments) -> None:
        self._heads = heads
        self._segments = segments

    async def of(self, key: ConversationKey, read: Callable[[State], Awaitable[T]]) -> T:
        """Read a conversation as it is now; again if what it consists of was collected meanwhile."""
        for _ in range(_TRIES):
            state = await self._heads.state(key)
            try:
                return await read(state)
            except Gone:
                self._heads.forget(self._heads.slot(folder(key)))
        raise StoreUnavailable(f"{key} changes faster than it is read, or objects of it are missing")

    async def load(self, state: State, records: Sequence[tuple[str, str]]) -> Loaded:
        events, found = await asyncio.gather(
            self.events(state, state.header.tail - 1, None, None),
            self._segments.get(state, [key_of(RECORD, *name) for name in records]),
        )
        kept = [unpack_record(value).record(key) for key, value in found.items()]
        return Loaded(
            header=state.header,
            events=events,
            calls=_ordered(state, state.calls.values()),
            records={(record.collection, record.key): record for record in kept},
        )

    async def events(self, state: State, after: int, before: int | None, limit: int | None) -> list[Event]:
        rows = await self._event_rows(state, after, before, limit)
        return [row.event(seq) for seq, row in rows.items()]

    async def texts(self, state: State, after: int, before: int | None) -> dict[int, str]:
        rows = await self._event_rows(state, after, before, None)
        return {seq: text for seq, row in rows.items() if (text := row.search_text()) is not None}

    async def _event_rows(
        self, state: State, after: int, before: int | None, limit: int | None
    ) -> dict[int, EventRow]:
        last = state.header.last_seq if before is None else min(before - 1, state.header.last_seq)
        first = max(after + 1, 1)
        if limit is not None:
            first = max(first, last - limit + 1)
        if first > last:
            return {}
        rows = await self._segments.scan(state, event_key(first), event_key(last + 1))
        return {seq_of(key): unpack_event(value) for key, value in rows.items()}

    async def calls(
        self, state: State, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]:
        if call_ids is None:
            ended = await self._segments.under(state, CALL)
        else:
            ended = await self._segments.get(state, [key_of(CALL, call_id) for call_id in call_ids])
        rows = [*state.calls.values(), *map(unpack_call, ended.values())]
        return _ordered(
            state,
            (
                row
                for row in rows
                if (status is None or row.status in status) and (call_ids is None or row.call_id in call_ids)
            ),
        )

    async def records(
        self,
        state: State,
        collection: str,
        keys: Collection[str] | None,
        prefix: str,
        after: str | None,
        before: str | None,
        limit: int | None,
        reverse: bool,
    ) -> list[Record]:
        if keys is not None:
            found = await self._segments.get(state, [key_of(RECORD, collection, key) for key in keys])
        else:
            found = await self._segments.under(state, key_of(RECORD, collection, prefix))
        names = sorted(found, reverse=reverse)
        if keys is None and after is not None:
            names = [name for name in names if name > key_of(RECORD, collection, after)]
        if keys is None and before is not None:
            names = [name for name in names if name < key_of(RECORD, collection, before)]
        return [unpack_record(found[name]).record(name) for name in names[:limit]]

    async def inventory(self, state: State) -> tuple[set[str], list[tuple[str, str, str]]]:
        records, tags = await asyncio.gather(
            self._segments.under(state, RECORD), self._segments.under(state, TAG)
        )
        named = [names_of(key) for key in tags]
        return {names_of(key)[0] for key in records}, [(name, value, ref) for name, value, ref in named]

    async def refs(self, state: State, name: str, value: str) -> list[str]:
        """The refs of a conversation's tag, in order."""
        prefix = key_of(TAG, name, value, "")
        rows = await self._segments.under(state, prefix)
        return [key[len(prefix) :].decode() for key in rows]


def _ordered(state: State, rows: Iterable[CallRow]) -> list[Call]:
    return [row.call(state.key) for row in sorted(rows, key=lambda row: row.order)]
