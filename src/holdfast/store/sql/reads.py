"""Reading: each method is one statement, and so from one moment."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, CallStatus, Event, Found, Header, Record
from holdfast.store.backend import Cursor, Order
from holdfast.store.search import located
from holdfast.store.sql.database import ENDLESS, Database, Row, after_prefix, bounded, digest
from holdfast.store.sql.rows import calls_of, header_of, record_of


class Reads:
    """
    The reads that are the same on every server, over a dialect's queries.

    A query about one conversation gives a row even if there is nothing in it, with NULL behind
    the conversation's columns: no row at all means that there is no conversation.
    """

    def __init__(self, database: Database, queries: SimpleNamespace) -> None:
        self._fetch = database.fetch
        self._q = queries

    async def header(self, key: ConversationKey) -> Header:
        return header_of((await self._of(key, self._q.header))[0])

    async def events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]:
        rows = await self._of(
            key, self._q.events, after=bounded(after), before=bounded(before), limit=bounded(limit)
        )
        return sorted((Event(*row) for row in rows if row[0] is not None), key=lambda event: event.seq)

    async def calls(
        self, key: ConversationKey, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]:
        rows = await self._of(key, self._q.calls, status=_listed(status), call_ids=_listed(call_ids))
        return calls_of(row for row in rows if row[2] is not None)

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
        if keys is not None:
            rows = await self._of(key, self._q.records_by_key, collection=collection, keys=list(keys))
            found = sorted(_records(rows), key=lambda record: record.key, reverse=reverse)
            return found[:limit]
        rows = await self._of(
            key,
            self._q.records_reversed if reverse else self._q.records,
            collection=collection,
            first=prefix,
            until=after_prefix(prefix) if prefix else None,
            after=after or "",
            before=before,
            limit=bounded(limit),
        )
        return sorted(_records(rows), key=lambda record: record.key, reverse=reverse)

    async def texts(self, key: ConversationKey, after: int, before: int | None) -> dict[int, str]:
        rows = await self._of(key, self._q.texts, after=bounded(after), before=bounded(before))
        return {seq: located(search, data) for seq, search, data in rows if seq is not None}

    async def inventory(self, key: ConversationKey) -> tuple[list[str], list[tuple[str, str, str]]]:
        rows = await self._of(key, self._q.inventory)
        collections = [row[0] for row in rows if row[0] is not None]
        return collections, [(name, value, ref) for _, name, value, ref in rows if name is not None]

    async def headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        at, id = (ENDLESS, "") if before is None else (bounded(before[0]), before[1])
        values: dict[str, Any] = {"owner": owner, "at": at, "id": id, "limit": bounded(limit)}
        if tag is not None:
            values["mark"] = digest(owner, *tag)
            query = self._q.headers_by_tag
            values["by_activity"] = order == "activity"
        else:
            query = self._q.headers_by_activity if order == "activity" else self._q.headers_by_creation
        return [header_of(row) for row in await self._fetch(query, **values)]

    async def owners(self, after: str, limit: int) -> list[str]:
        return [row[0] for row in await self._fetch(self._q.owners, after=after, limit=bounded(limit))]

    async def open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]:
        return calls_of(
            await self._fetch(self._q.open_calls, owner=owner, status=list(status), limit=bounded(limit))
        )

    async def due(self, now: int | None, limit: int) -> list[Call]:
        return calls_of(await self._fetch(self._q.due, now=now, limit=bounded(limit)))

    async def find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        rows = await self._fetch(
            self._q.find, mark=digest(owner, name, value), owner=owner, limit=bounded(limit)
        )
        return [Found(ConversationKey(owner, id), ref) for id, ref in rows]

    async def _of(self, key: ConversationKey, query: Any, **values: Any) -> list[Row]:
        place = digest(key.owner, key.id)
        rows = await self._fetch(query, owner=key.owner, id=key.id, place=place, **values)
        if not rows:
            raise NotFound(key)
        return rows


def _records(rows: list[Row]) -> list[Record]:
    return [record_of(pk, row) for pk, *row in rows if row[1] is not None]


def _listed(values: Collection[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)
