"""
The contract as running code: conversations in this process, gone when it ends.

Other stores are compared with this one, so it is written to be read. Operations are applied one
by one, in place, and undone if one of them fails (``commit.py``). Nothing here awaits, so each
method is one step.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Collection, Iterator, Sequence

from msgspec.structs import replace

from holdfast.clock import Clock, microseconds, system_clock
from holdfast.errors import AlreadyExists, InvalidOp, NotFound, StaleHeader, TokenConflict, WeakerThanAsked
from holdfast.ids import ConversationKey
from holdfast.model.records import (
    OPEN,
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
from holdfast.store.backend import Cursor, Limits, Order
from holdfast.store.change import Change
from holdfast.store.contract import Store
from holdfast.store.memory.commit import Applying, Conversation, given
from holdfast.store.ops import ABSENT, SetHeader
from holdfast.store.rules import guard
from holdfast.store.search import Query
from holdfast.store.url import StoreUrl
from holdfast.store.watchers import Watch, Watchers


class _World:
    """What all stores of one memory:// name share."""

    def __init__(self) -> None:
        self.conversations: dict[ConversationKey, Conversation] = {}
        self.incarnations = itertools.count(1)
        self.watchers = Watchers()


_named: dict[str, _World] = {}


class MemoryStore(Store):
    """
    Conversations in memory, for tests and first steps.

    ``memory://`` is a store of its own; ``memory://name`` is the same one for the whole process.
    """

    limits = Limits(durability="memory", max_commit=64 << 20, search="scan", signals="process")

    def __init__(self, url: str = "memory://", *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        parsed = StoreUrl.parse(url, params=frozenset(("durability",)))
        if parsed.params.get("durability", "memory") != "memory":
            raise WeakerThanAsked(
                f"{url}: a memory store dies with its process; use sqlite:///path.db to keep it"
            )
        name = parsed.host
        self._world = _named.setdefault(name, _World()) if name else _World()
        self._now = clock or system_clock
        self._watches: set[Watch] = set()

    async def _open(self) -> None:
        pass

    async def _close(self) -> None:
        for watch in self._watches:
            watch.end()

    async def _pending_migrations(self) -> list[str]:
        return []

    async def _migrate(self) -> None:
        pass

    def _get(self, key: ConversationKey) -> Conversation:
        if (conversation := self._world.conversations.get(key)) is None:
            raise NotFound(key)
        return conversation

    # Writing

    async def _commit(self, change: Change) -> Commit:
        key = change.key
        conversation = self._world.conversations.get(key)
        if conversation is not None and change.token in conversation.tokens:
            digest, first = conversation.tokens[change.token]
            if not change.matches(digest):
                raise TokenConflict(key, change.token)
            return first
        if conversation is None:
            if change.create is None:
                raise NotFound(key)
            conversation = self._new(key, change.create, change.time(self._now()))
        elif change.create is not None and change.create.when == ABSENT:
            raise AlreadyExists(key)
        commit = Applying(conversation, self._now()).run(change)
        self._world.conversations[key] = conversation
        self._world.watchers.changed([key])
        return commit

    def _new(self, key: ConversationKey, header: SetHeader, at: int) -> Conversation:
        incarnation = next(self._world.incarnations)
        blank = Header(
            key=key,
            last_seq=0,
            created_at=at,
            activity=at,
            revision=guard(incarnation, 0),
            version=guard(incarnation, 0),
        )
        return Conversation(incarnation, replace(blank, **given(header)))

    async def _fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        source = self._get(key)
        at = source.header.last_seq if at is None else at
        if not 0 <= at <= source.header.last_seq:
            raise InvalidOp(f"{key} can't be forked at seq {at}: its log ends at {source.header.last_seq}")
        if change.key in self._world.conversations:
            raise AlreadyExists(change.key)
        old = source.header
        header = SetHeader(old.title, None, old.agent, old.metadata, old.settings)
        fork = self._new(change.key, header, self._now())
        fork.events = source.events[:at]
        fork.texts = {seq: text for seq, text in source.texts.items() if seq <= at}
        fork.ids = {id: seq for id, seq in source.ids.items() if seq <= at}
        first = guard(fork.incarnation, 1)
        fork.records = {
            k: replace(r, revision=first) for k, r in source.records.items() if k[0] in collections
        }
        fork.header = replace(fork.header, last_seq=at, forked_from=key.id, forked_at=at)
        Applying(fork, self._now()).run(change)
        self._world.conversations[change.key] = fork
        self._world.watchers.changed([change.key])
        return fork.header

    async def _delete(self, key: ConversationKey, when: int | None) -> Erased:
        gone = self._world.conversations.get(key)
        if gone is None:
            return Erased()
        if when not in (None, gone.header.revision):
            raise StaleHeader(key, expected=when, actual=gone.header.revision)
        del self._world.conversations[key]
        self._world.watchers.changed([key])
        return Erased(1, len(gone.events), len(gone.calls), len(gone.records), len(gone.tags))

    # Reading

    async def _header(self, key: ConversationKey) -> Header:
        return self._get(key).header

    async def _load(self, key: ConversationKey, records: Sequence[tuple[str, str]]) -> Loaded:
        conversation = self._get(key)
        return Loaded(
            header=conversation.header,
            events=conversation.events[conversation.header.tail - 1 :],
            calls=[call for call in conversation.calls.values() if call.status in OPEN],
            records={name: record for name in records if (record := conversation.records.get(name))},
        )

    async def _events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]:
        events = self._get(key).events[max(after, 0) : None if before is None else max(before - 1, 0)]
        return events if limit is None else events[-limit:]

    async def _calls(
        self, key: ConversationKey, status: Collection[CallStatus] | None, call_ids: Collection[str] | None
    ) -> list[Call]:
        return [
            call
            for call in self._get(key).calls.values()
            if (status is None or call.status in status) and (call_ids is None or call.call_id in call_ids)
        ]

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
    ) -> list[Record]:
        def wanted(record: Record) -> bool:
            if keys is not None:
                return record.key in keys
            inside = (after is None or record.key > after) and (before is None or record.key < before)
            return inside and record.key.startswith(prefix)

        mine = (r for r in self._get(key).records.values() if r.collection == collection and wanted(r))
        return sorted(mine, key=lambda record: record.key, reverse=reverse)[:limit]

    def _of(self, owner: str) -> Iterator[Conversation]:
        return (c for key, c in self._world.conversations.items() if key.owner == owner)

    async def _texts(self, key: ConversationKey, after: int, before: int | None) -> dict[int, str]:
        texts = self._get(key).texts
        return {seq: text for seq, text in texts.items() if after < seq and (before is None or seq < before)}

    async def _inventory(self, key: ConversationKey) -> tuple[set[str], list[tuple[str, str, str]]]:
        conversation = self._get(key)
        return {collection for collection, _ in conversation.records}, list(conversation.tags)

    async def _headers(
        self, owner: str, tag: tuple[str, str] | None, order: Order, before: Cursor | None, limit: int
    ) -> list[Header]:
        def place(header: Header) -> Cursor:
            return (header.activity if order == "activity" else header.created_at, header.key.id)

        mine = (c.header for c in self._of(owner) if tag is None or any(t[:2] == tag for t in c.tags))
        return sorted((h for h in mine if before is None or place(h) < before), key=place, reverse=True)[
            :limit
        ]

    async def _owners(self, after: str, limit: int) -> list[str]:
        return sorted({key.owner for key in self._world.conversations if key.owner > after})[:limit]

    async def _open_calls(self, owner: str, status: Collection[CallStatus], limit: int) -> list[Call]:
        calls = [call for c in self._of(owner) for call in c.calls.values() if call.status in status]
        return sorted(calls, key=lambda call: (call.opened_at, call.key.id))[:limit]

    async def _find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        found = (
            Found(c.header.key, tag[2]) for c in self._of(owner) for tag in c.tags if tag[:2] == (name, value)
        )
        return sorted(found)[:limit]

    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        hits = [
            (c.events[seq - 1].at, Hit(c.header.key, seq, query.snippet(text)))
            for c in self._of(owner)
            for seq, text in c.texts.items()
            if query.matches(text)
        ]
        best = sorted(hits, key=lambda h: (h[0], h[1].key, h[1].seq), reverse=True)
        return [hit for _, hit in best][:limit]

    # Time and ownership

    async def _due(self, limit: int) -> list[Call]:
        now = self._now()
        due = [
            (call.expires_at, call)
            for c in self._world.conversations.values()
            for call in c.calls.values()
            if call.expires_at is not None and call.expires_at <= now
        ]
        return [call for _, call in sorted(due, key=lambda d: (d[0], d[1].key, d[1].call_id))][:limit]

    async def _acquire(self, key: ConversationKey, holder: str, ttl: float) -> Lease | None:
        conversation, now = self._get(key), self._now()
        lease, header = conversation.header.lease, conversation.header
        ran_out = lease is not None and lease.until <= now
        if lease is not None and lease.holder != holder and not ran_out:
            return None
        conversation.fences += 1
        lease = Lease(
            key, holder, guard(conversation.incarnation, conversation.fences), now + microseconds(ttl)
        )
        conversation.header = replace(header, lease=lease, takeovers=header.takeovers + ran_out)
        return lease

    async def _claim(
        self, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]:
        now, ready = self._now(), []
        for key, c in self._world.conversations.items():
            header = c.header
            if header.wake_at is not None and (agents is None or header.agent in agents):
                since = max(header.wake_at, header.lease.until if header.lease else 0)
                if since <= now:
                    ready.append((since, c.incarnation, key))
        return [
            lease for *_, key in sorted(ready)[:limit] if (lease := await self._acquire(key, holder, ttl))
        ]

    async def _renew(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        now, renewed = self._now(), []
        for lease in leases:
            conversation = self._world.conversations.get(lease.key)
            held = conversation.header.lease if conversation else None
            if conversation and held and held.fence == lease.fence and held.until > now:
                longer = replace(held, until=now + microseconds(ttl))
                conversation.header = replace(conversation.header, lease=longer)
                renewed.append(longer)
        return renewed

    async def _release(self, lease: Lease, defer: float | None) -> None:
        conversation = self._world.conversations.get(lease.key)
        if conversation is None or (held := conversation.header.lease) is None or held.fence != lease.fence:
            return
        wake = conversation.header.wake_at if defer is None else self._now() + microseconds(defer)
        conversation.header = replace(conversation.header, lease=None, wake_at=wake)
        self._world.watchers.changed([lease.key])

    # Hints and upkeep

    @contextlib.asynccontextmanager
    async def _watch(self, keys: frozenset[ConversationKey] | None) -> AsyncIterator[AsyncIterator[Notice]]:
        async with self._world.watchers.watch(keys) as watch:
            self._watches.add(watch)
            try:
                yield watch
            finally:
                self._watches.discard(watch)

    async def _signal(self, key: ConversationKey, payload: bytes) -> None:
        self._world.watchers.signal(key, payload)

    async def _settle(self) -> None:
        pass

    async def _scrub(self) -> None:
        pass
