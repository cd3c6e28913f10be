"""The same thing in two stores: how answers with opaque numbers are compared."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, Commit, Event, Header, Lease, Loaded, Record
from holdfast.store import Store
from holdfast.testing.conformance.draws import COLLECTIONS, RECORDS, TAGS, WORDS


class Numbers:
    """
    Guards as one store gives them, numbered in the order in which they were first seen.

    Revisions, versions and fences are opaque, so two stores agree if they repeat, and do not
    repeat, the same ones.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], int] = {}
        self._counts: dict[tuple[object, ...], int] = {}

    def of(self, number: int, *scope: object) -> int:
        if (*scope, number) not in self._seen:
            self._counts[scope] = self._seen[(*scope, number)] = self._counts.get(scope, 0) + 1
        return self._seen[(*scope, number)]

    def plain(self, value: Any, key: object = None) -> Any:
        """An answer with opaque numbers replaced, so that it can be compared."""
        match value:
            case Header():
                return msgspec.structs.replace(
                    value,
                    revision=self.of(value.revision, "revision", value.key),
                    version=self.of(value.version, "version", value.key),
                    lease=self.plain(value.lease),
                )
            case Lease():
                return msgspec.structs.replace(value, fence=self.of(value.fence, "fence", value.key))
            case Record():
                name = (value.collection, value.key)
                return msgspec.structs.replace(value, revision=self.of(value.revision, "record", key, name))
            case Event(type="redacted"):
                return msgspec.structs.replace(value, data=json.loads(value.data)["type"].encode())
            case Commit():
                return msgspec.structs.replace(value, revisions=())
            case Loaded():
                return tuple(self.plain(getattr(value, field), key) for field in value.__struct_fields__)
            case list():
                return [self.plain(item, key) for item in value]
            case dict():
                return {name: self.plain(item, key) for name, item in value.items()}
        return value


class Twin(msgspec.Struct, frozen=True):
    """The same thing as the store and as the memory store know it: a guard, a lease or operations."""

    ours: Any
    theirs: Any


async def outcome(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except HoldfastError as error:
        return error


async def sorted_leases(answer: Awaitable[list[Lease]]) -> list[Lease]:
    return sorted(await answer, key=lambda lease: lease.key)


async def everything(
    store: Store, example: str, owners: list[str], keys: list[ConversationKey]
) -> dict[tuple[Any, ...], Any]:
    """Every read, by its name and what it was about. Where the contract leaves the order open, it is sorted."""
    await store.settle()
    seen: dict[tuple[Any, ...], Any] = {
        ("due", None): _sorted_calls(await store.due(limit=100_000), example),
        ("owners", None): [owner for owner in await store.owners(after=example) if owner.startswith(example)],
    }
    for owner in owners:
        seen["headers by activity", owner] = await store.headers(owner)
        seen["headers by creation", owner] = await store.headers(owner, order="created")
        seen["open calls", owner] = _sorted_calls(await store.open_calls(owner), owner)
        for tag in TAGS:
            seen["headers by tag", owner, tag] = await store.headers(owner, tag=tag, limit=1)
            seen["found", owner, tag] = await store.find(owner, *tag)
        for text in WORDS:
            hits = await store.search(owner, text, limit=1000)
            seen["hits", owner, text] = {(hit.key, hit.seq) for hit in hits}
    for key in keys:
        names = [(collection, record) for collection in COLLECTIONS for record in RECORDS]
        loaded = await outcome(store.load(key, records=names))
        seen["load", key] = loaded
        if isinstance(loaded, Loaded):
            seen["events", key] = await store.events(key)
            seen["some events", key] = await store.events(key, after=1, limit=3)
            seen["calls", key] = await store.calls(key)
            seen["inventory", key] = await store.inventory(key)
            seen["texts", key] = await store.texts(key)
            for collection in COLLECTIONS:
                seen["records", key, collection] = await store.records(key, collection, reverse=True)
    return seen


def _sorted_calls(calls: list[Call], owner: str) -> list[Call]:
    mine = [call for call in calls if call.key.owner.startswith(owner)]
    return sorted(mine, key=lambda call: (call.key, call.call_id))
