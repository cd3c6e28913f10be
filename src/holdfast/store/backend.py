"""What the author of a store implements, and how it says what it can't do."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Literal

import msgspec

from holdfast.ids import ConversationKey
from holdfast.model.records import (
    Call,
    CallStatus,
    Commit,
    Erased,
    Event,
    Found,
    Header,
    Hit,
    Lease,
    Loaded,
    Notice,
    Record,
)
from holdfast.store.change import Change
from holdfast.store.search import Query

Durability = Literal["memory", "os", "disk", "replicated"]
Order = Literal["activity", "created"]
Cursor = tuple[int, str]


class Limits(msgspec.Struct, frozen=True):
    """
    What a backend can't do as well as another, as values.

    ``durability``: what a returned commit survives: nothing (``memory``), a crash of the process
    (``os``), loss of power (``disk``), loss of the machine (``replicated``). Delays are in seconds.
    """

    durability: Durability
    max_commit: int
    index_lag: float = 0.0
    watch_delay: float = 0.0
    search: Literal["index", "scan"] = "index"
    signals: Literal["process", "everywhere"] = "everywhere"
    scrub: bool = True


class Backend(ABC):
    """
    The part of a store that differs from one backend to the next.

    Each method keeps the rule of the public method of ``Store`` with the same name. Arguments
    are valid, and the store is open. Nothing here logs, retries, publishes or parses JSON.
    """

    url: str
    limits: Limits

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _pending_migrations(self) -> list[str]: ...

    @abstractmethod
    async def _migrate(self) -> None: ...

    @abstractmethod
    async def _commit(self, change: Change) -> Commit: ...

    @abstractmethod
    async def _header(self, key: ConversationKey) -> Header: ...

    @abstractmethod
    async def _load(self, key: ConversationKey, records: Sequence[tuple[str, str]]) -> Loaded: ...

    @abstractmethod
    async def _events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]: ...

    @abstractmethod
    async def _texts(self, key: ConversationKey, after: int, before: int | None) -> dict[int, str]: ...

    @abstractmethod
    async def _calls(
        self, key: ConversationKey, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]: ...

    @abstractmethod
    async def _records(
        self,
        key: ConversationKey,
        collection: str,
        keys: Collection[str] | None,
        prefix: str,
        after: str | None,
        before: str | None,
        limit: int | None,
        reverse: bool,
    ) -> list[Record]: ...

    @abstractmethod
    async def _inventory(self, key: ConversationKey) -> tuple[Iterable[str], Iterable[tuple[str, str, str]]]:
        """In any order."""

    @abstractmethod
    async def _headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]: ...

    @abstractmethod
    async def _owners(self, after: str, limit: int) -> list[str]: ...

    @abstractmethod
    async def _open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]: ...

    @abstractmethod
    async def _find(self, owner: str, name: str, value: str, limit: int) -> list[Found]: ...

    @abstractmethod
    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]: ...

    @abstractmethod
    async def _due(self, limit: int) -> list[Call]: ...

    @abstractmethod
    async def _acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None: ...

    @abstractmethod
    async def _claim(
        self, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]: ...

    @abstractmethod
    async def _renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]: ...

    @abstractmethod
    async def _release(self, lease: Lease, defer: float | None) -> None: ...

    @abstractmethod
    def _watch(
        self, keys: frozenset[ConversationKey] | None
    ) -> contextlib.AbstractAsyncContextManager[AsyncIterator[Notice]]: ...

    @abstractmethod
    async def _signal(self, key: ConversationKey, payload: bytes) -> None: ...

    @abstractmethod
    async def _delete(self, key: ConversationKey, when: int | None) -> Erased: ...

    @abstractmethod
    async def _fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header: ...

    @abstractmethod
    async def _settle(self) -> None: ...

    @abstractmethod
    async def _scrub(self) -> None: ...
