"""
Stores with one mistake each, and the part of the suite that must notice it.

Not collected by default: ``test_broken_stores.py`` runs this file and looks at what failed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
from collections.abc import Collection
from typing import ClassVar
from uuid import uuid4

import pytest
from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.errors import Conflict, Fenced
from holdfast.ids import ConversationKey
from holdfast.model.records import Commit, Erased, Event, Found, Header, Hit, Lease
from holdfast.store import Append, MoveCall, Op, Redact, Rest, Wake
from holdfast.store.change import Change
from holdfast.store.memory import MemoryStore
from holdfast.store.memory.commit import Conversation
from holdfast.store.search import Query
from holdfast.testing import StoreKit
from holdfast.testing.conformance.atomic import AtomicRules
from holdfast.testing.conformance.calls import CallRules
from holdfast.testing.conformance.cancel import CancelRules
from holdfast.testing.conformance.expiry import ExpiryRules
from holdfast.testing.conformance.fork import ForkRules
from holdfast.testing.conformance.header import HeaderRules
from holdfast.testing.conformance.leases import LeaseRules
from holdfast.testing.conformance.lists import ListRules
from holdfast.testing.conformance.log import LogRules
from holdfast.testing.conformance.owners import OwnerRules
from holdfast.testing.conformance.payloads import PayloadRules
from holdfast.testing.conformance.races import RaceRules
from holdfast.testing.conformance.records import RecordRules
from holdfast.testing.conformance.redact import RedactRules
from holdfast.testing.conformance.search import SearchRules
from holdfast.testing.conformance.tokens import TokenRules
from holdfast.testing.conformance.watch import WatchRules
from holdfast.testing.conformance.whole import DeleteRules
from holdfast.testing.conformance.work import WorkRules

graves: dict[str, list[Conversation]] = {}
"""What ``BuriesItsDead`` keeps, by URL."""


class Mutant:
    """A part of the suite with a broken store under it."""

    store_class: ClassVar[type[MemoryStore]]

    @pytest.fixture
    def kit(self) -> StoreKit:
        url = f"memory://{uuid4()}"

        def make(*, clock: Clock | None) -> MemoryStore:
            return self.store_class(url, clock=clock)

        def scan() -> bytes:
            world = self.store_class(url)._world
            return pickle.dumps([vars(one) for one in [*world.conversations.values(), *graves.get(url, [])]])

        return StoreKit(make, scan=scan)


class NoHeadCheck(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        return await super()._commit(replace(change, expect=None))


class TestNoHeadCheck(Mutant, LogRules, RaceRules):
    store_class = NoHeadCheck


class ById(dict[ConversationKey, Conversation]):
    """Conversations whose owner is left out of the key."""

    def _first(self, key: ConversationKey) -> ConversationKey:
        return next((known for known in self if known.id == key.id), key)

    def get(self, key: ConversationKey, default: object = None) -> Conversation | None:  # type: ignore[override]
        return super().get(self._first(key))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, ConversationKey) and super().__contains__(self._first(key))

    def __setitem__(self, key: ConversationKey, conversation: Conversation) -> None:
        super().__setitem__(self._first(key), conversation)

    def __delitem__(self, key: ConversationKey) -> None:
        super().__delitem__(self._first(key))


class OwnerIgnored(MemoryStore):
    async def _open(self) -> None:
        if not isinstance(self._world.conversations, ById):
            self._world.conversations = ById()


class TestOwnerIgnored(Mutant, OwnerRules):
    store_class = OwnerIgnored


class AnyAnswerWins(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        conversation = self._world.conversations.get(change.key)
        for move in change.ops:
            if conversation and isinstance(move, MoveCall) and (call := conversation.calls.get(move.call_id)):
                ready = replace(call, status=min(move.when), expires_at=None)
                conversation.calls[move.call_id] = (
                    ready if move.step is None else replace(ready, step=move.step)
                )
        return await super()._commit(change)


class TestAnyAnswerWins(Mutant, CallRules, ExpiryRules, RaceRules):
    store_class = AnyAnswerWins


class HalfACommit(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        try:
            return await super()._commit(change)
        except Conflict:
            if change.key in self._world.conversations:
                await self._apply_until_it_fails(change.key, change.ops)
            raise

    async def _apply_until_it_fails(self, key: ConversationKey, ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, Rest):
                return
            await super()._commit(Change.of(key, [op]))


class TestHalfACommit(Mutant, AtomicRules, RaceRules):
    store_class = HalfACommit


class TokenIgnored(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        return await super()._commit(replace(change, token=None))


class TestTokenIgnored(Mutant, TokenRules, RaceRules):
    store_class = TokenIgnored


class NumbersRestart(MemoryStore):
    async def _open(self) -> None:
        self._world.incarnations = itertools.repeat(1)  # type: ignore[assignment]


class TestNumbersRestart(Mutant, RecordRules, HeaderRules, LeaseRules, DeleteRules):
    store_class = NumbersRestart


class SearchLeaks(MemoryStore):
    async def _search(self, owner: str, query: Query, limit: int) -> list[Hit]:
        owners = sorted({key.owner for key in self._world.conversations})
        return [hit for one in owners for hit in await super(SearchLeaks, self)._search(one, query, limit)][
            :limit
        ]


class TestSearchLeaks(Mutant, SearchRules, OwnerRules):
    store_class = SearchLeaks


class RestsBlindly(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        return await super()._commit(replace(change, expect=None) if change.net.rest else change)


class TestRestsBlindly(Mutant, WorkRules):
    store_class = RestsBlindly


class NoFence(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        return await super()._commit(replace(change, fence=None))


class TestNoFence(Mutant, LeaseRules):
    store_class = NoFence


class TimeFences(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        conversation = self._world.conversations.get(change.key)
        lease = conversation.header.lease if conversation else None
        if change.fence is not None and lease is not None and lease.until <= self._now():
            raise Fenced(change.key, fence=change.fence)
        return await super()._commit(change)


class TestTimeFences(Mutant, LeaseRules):
    store_class = TimeFences


class AnswersAfterExpiry(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        conversation = self._world.conversations.get(change.key)
        calls = conversation.calls if conversation else {}
        for move in change.ops:
            if isinstance(move, MoveCall) and move.to != "expired" and move.call_id in calls:
                calls[move.call_id] = replace(calls[move.call_id], expires_at=None)
        return await super()._commit(change)


class TestAnswersAfterExpiry(Mutant, ExpiryRules):
    store_class = AnswersAfterExpiry


class RedactsTheLogOnly(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        conversation = self._world.conversations.get(change.key)
        texts = dict(conversation.texts) if conversation else {}
        commit = await super()._commit(change)
        if conversation and any(isinstance(op, Redact) for op in change.ops):
            conversation.texts.update(texts)
        return commit


class TestRedactsTheLogOnly(Mutant, RedactRules):
    store_class = RedactsTheLogOnly


class ActivityByTheClock(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        commit = await super()._commit(change)
        conversation = self._world.conversations[change.key]
        conversation.header = replace(conversation.header, activity=self._now())
        return commit


class TestActivityByTheClock(Mutant, HeaderRules):
    store_class = ActivityByTheClock


class HandsOutItsState(MemoryStore):
    async def _events(
        self, key: ConversationKey, after: int, before: int | None, limit: int | None
    ) -> list[Event]:
        if after == 0 and before is None and limit is None:
            return self._get(key).events
        return await super()._events(key, after, before, limit)


class TestHandsOutItsState(Mutant, PayloadRules):
    store_class = HandsOutItsState


class LaterMarkWins(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        conversation = self._world.conversations.get(change.key)
        if conversation and any(isinstance(op, Wake) for op in change.ops):
            conversation.header = replace(conversation.header, wake_at=None)
        return await super()._commit(change)


class TestLaterMarkWins(Mutant, WorkRules):
    store_class = LaterMarkWins


class ForksTakeCalls(MemoryStore):
    async def _fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        header = await super()._fork(key, change, at, collections)
        self._get(change.key).calls.update(self._get(key).calls)
        return header


class TestForksTakeCalls(Mutant, ForkRules):
    store_class = ForksTakeCalls


class DeletesLeaveTags(MemoryStore):
    async def _delete(self, key: ConversationKey, when: int | None) -> Erased:
        tags = [*self._world.conversations[key].tags] if key in self._world.conversations else []
        erased = await super()._delete(key, when)
        self._orphans = [*getattr(self, "_orphans", []), *((key, tag) for tag in tags)]
        return erased

    async def _find(self, owner: str, name: str, value: str, limit: int) -> list[Found]:
        orphans = getattr(self, "_orphans", [])
        left = [Found(key, tag[2]) for key, tag in orphans if key.owner == owner and tag[:2] == (name, value)]
        return [*left, *await super()._find(owner, name, value, limit)][:limit]


class TestDeletesLeaveTags(Mutant, DeleteRules):
    store_class = DeletesLeaveTags


class ReadsItsOwnJson(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        def parsed(op: Op) -> Op:
            if not isinstance(op, Append):
                return op
            try:
                return replace(op, data=json.dumps(json.loads(op.data)).encode())
            except (ValueError, RecursionError):
                return op

        return await super()._commit(replace(change, ops=tuple(map(parsed, change.ops))))


class TestReadsItsOwnJson(Mutant, PayloadRules):
    store_class = ReadsItsOwnJson


class WritesInTwoSteps(MemoryStore):
    async def _commit(self, change: Change) -> Commit:
        if (
            len(change.ops) < 2
            or change.token
            or change.net.rest
            or change.key not in self._world.conversations
        ):
            return await super()._commit(change)
        first = await super()._commit(Change.of(change.key, change.ops[:1], expect=change.expect))
        await asyncio.sleep(0)
        second = await super()._commit(Change.of(change.key, change.ops[1:]))
        seqs, revisions = first.seqs + second.seqs, first.revisions + second.revisions
        return Commit(seqs, revisions, first.prev_seq, second.last_seq, second.at)


class TestWritesInTwoSteps(Mutant, CancelRules, RaceRules):
    store_class = WritesInTwoSteps


class ClaimsWhatIsHeld(MemoryStore):
    async def _claim(
        self, holder: str, agents: Collection[str] | None, limit: int, ttl: float
    ) -> list[Lease]:
        for conversation in self._world.conversations.values():
            if conversation.header.wake_at is not None:
                conversation.header = replace(conversation.header, lease=None)
        return await super()._claim(holder, agents, limit, ttl)


class TestClaimsWhatIsHeld(Mutant, WorkRules):
    store_class = ClaimsWhatIsHeld


class ListsByOffset(MemoryStore):
    async def _headers(self, owner, tag, order, before, limit):  # type: ignore[no-untyped-def]
        if before is None:
            self._offset = 0
        page = (await super()._headers(owner, tag, order, None, 10_000))[self._offset :][:limit]
        self._offset += limit
        return page


class TestListsByOffset(Mutant, ListRules):
    store_class = ListsByOffset


class NoticesItsOwnOnly(MemoryStore):
    def __init__(self, url: str = "memory://", *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        shared, self._world = self._world, MemoryStore("memory://")._world
        self._world.conversations, self._world.incarnations = shared.conversations, shared.incarnations


class TestNoticesItsOwnOnly(Mutant, WatchRules):
    store_class = NoticesItsOwnOnly
    slack = 0.05


class BuriesItsDead(MemoryStore):
    async def _delete(self, key: ConversationKey, when: int | None) -> Erased:
        if conversation := self._world.conversations.get(key):
            graves.setdefault(self.url, []).append(conversation)
        return await super()._delete(key, when)


class TestBuriesItsDead(Mutant, DeleteRules):
    store_class = BuriesItsDead
