"""
The contract that every store keeps.

Public methods check what they are given and say the rule; a store implements the methods of
``Backend`` and nothing else. The memory store is the rule as running code, and
``holdfast.testing.StoreConformance`` tries to break it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from types import TracebackType
from typing import Self

from holdfast.clock import Clock
from holdfast.errors import InvalidOp, StoreClosed, TooLarge
from holdfast.ids import ConversationKey, check_name
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
    Inventory,
    Lease,
    Loaded,
    Notice,
    Record,
)
from holdfast.store.backend import Backend, Cursor, Order
from holdfast.store.change import Change
from holdfast.store.ops import ABSENT, Op, SetHeader, check_duration, check_number
from holdfast.store.search import Query


class Store(Backend):
    """
    A place where conversations live. Use it as an async context manager.

    All methods may be called from any number of tasks of one event loop. A method that raises
    has changed nothing, except after ``StoreUnavailable``, where a commit may have been applied:
    repeat it with its token.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self._clock = clock
        self._opened = False
        self._gate = asyncio.Lock()

    async def open(self) -> Self:
        """
        Make the store usable; a second call does nothing.

        Raises:
            StoreUnavailable: The file or server can't be reached.
            NotAStore: It holds something else.
            SchemaOutdated: It was written by an older version.
            SchemaTooNew: It was written by a newer version.
            WeakerThanAsked: It can't promise the durability that the URL asks for.
        """
        async with self._gate:
            if not self._opened:
                await self._open()
                self._opened = True
        return self

    async def close(self) -> None:
        """Wait for what was accepted, then let go of every resource. A second call does nothing."""
        async with self._gate:
            if self._opened:
                self._opened = False
                await self._close()

    async def pending_migrations(self) -> list[str]:
        """
        The scripts that ``migrate`` would run now, oldest first; empty if the schema is current.

        The store need not be open, and nothing is changed: print them, or check that there are none.
        """
        return await self._pending_migrations()

    async def migrate(self) -> None:
        """
        Bring the schema up to date, once, even if many processes try at the same time.

        The store need not be open. Either all pending scripts are applied or none.

        Raises:
            StoreUnavailable: The file or server can't be reached.
            NotAStore: It holds something else.
            SchemaTooNew: It was written by a newer version.
        """
        await self._migrate()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # The one write door

    async def commit(
        self,
        key: ConversationKey,
        ops: Sequence[Op],
        *,
        token: str | None = None,
        expect: int | None = None,
        fence: int | None = None,
        create: SetHeader | None = None,
        at: int | None = None,
    ) -> Commit:
        """
        Apply ``ops`` in order: all of them or none, durable on return.

        Numbers given to appends start at 1 and have no gaps. ``activity`` moves with each event
        that is appended and with each ``PutRecord``, and never back. Cancelling the awaiting task leaves the commit
        applied or not, never half.

        Args:
            token: Makes a repetition safe. Seen before in this conversation, the first result
                comes back, before any other check; it is kept as long as the conversation.
            expect: The seq that the log must end at.
            fence: The fence of the conversation's lease. Compared by number; time plays no part.
            create: The header of the conversation if it is not there yet, made by the same
                commit. With ``when=ABSENT`` it must not be there.
            at: When it happened, in microseconds since 1970, for copies and imports. A time that
                is still to come counts as now, one before the conversation's ``activity`` as that.

        Raises:
            InvalidInput: An argument can never work.
            TokenConflict: The token was used for other operations.
            NotFound: There is no such conversation for this owner, and no ``create``.
            AlreadyExists: There is one, and ``create`` says ``when=ABSENT``.
            Fenced: The fence is not the current lease's.
            SeqConflict: The log does not end at ``expect``.
            StaleCall: A call exists already, is in another status or step, or past its expiry.
            StaleRecord: A record has another revision.
            StaleHeader: The header has another version.
            Busy: ``Rest`` while a call executes on a server or is detached.
            NoSuchEvent: ``Redact`` of a seq that the log did not have.

        The checks are made in this order on every backend.
        """
        self._check_open()
        change = self._change(key, ops, token=token, expect=expect, fence=fence, create=create, at=at)
        return await self._commit(change)

    # Reading one conversation

    async def header(self, key: ConversationKey) -> Header:
        """
        What is known of a conversation without reading its log.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        return await self._header(key)

    async def load(self, key: ConversationKey, *, records: Sequence[tuple[str, str]] = ()) -> Loaded:
        """
        All that is needed to go on, from one moment and in one round trip.

        That is the header, the events from its ``tail`` on, the calls that are not final, and the
        ``records`` named as (collection, key); those that are not there are left out.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        for collection, name in records:
            check_name("collection", collection)
            check_name("record key", name)
        return await self._load(key, records)

    async def events(
        self, key: ConversationKey, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> list[Event]:
        """
        Events with ``after < seq < before``, always ascending; ``limit`` keeps the newest of them.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        check_number("after", after, least=-(2**63))
        check_number("before", before, least=-(2**63))
        _check_limit(limit)
        return await self._events(key, after, before, limit)

    async def texts(
        self, key: ConversationKey, *, after: int = 0, before: int | None = None
    ) -> dict[int, str]:
        """
        What search finds events by: the search texts of those with ``after < seq < before``, by seq.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        check_number("after", after, least=-(2**63))
        check_number("before", before, least=-(2**63))
        return await self._texts(key, after, before)

    async def calls(
        self,
        key: ConversationKey,
        *,
        status: Collection[CallStatus] | None = None,
        call_ids: Collection[str] | None = None,
    ) -> list[Call]:
        """
        Tool calls of a conversation in the order they were opened.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        _check_names("call id", call_ids)
        return await self._calls(key, status, call_ids)

    async def records(
        self,
        key: ConversationKey,
        collection: str,
        *,
        keys: Collection[str] | None = None,
        prefix: str = "",
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Record]:
        """
        Records of a collection, ordered by the code points of their keys.

        Given ``keys``, only those; otherwise keys that start with ``prefix`` and lie between
        ``after`` and ``before``, both exclusive. ``limit`` counts from the end that ``reverse``
        starts at.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        check_name("collection", collection)
        _check_names("record key", keys)
        for bound in (prefix, after, before):
            check_name("record key", bound or "", empty=True)
        _check_limit(limit)
        return await self._records(key, collection, keys, prefix, after, before, limit, reverse)

    async def inventory(self, key: ConversationKey) -> Inventory:
        """
        What else a conversation has: the names of its collections, and its tags.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        collections, tags = await self._inventory(key)
        return Inventory(sorted(collections), sorted(tags))

    # Reading across the conversations of one owner

    async def headers(
        self,
        owner: str,
        *,
        tag: tuple[str, str] | None = None,
        order: Order = "activity",
        before: Cursor | None = None,
        limit: int = 50,
    ) -> list[Header]:
        """
        Conversations of an owner, newest first, without reading their events.

        ``before`` is (``activity`` or ``created_at``, ``id``) of the last one of the page before.
        A conversation that becomes active moves to the front of ``activity``; a sweep that must
        skip nothing pages by ``created``. Equal times are ordered by id, descending.
        """
        self._check_open()
        check_name("owner", owner)
        _check_limit(limit)
        if order not in ("activity", "created"):
            raise InvalidOp(f"no order {order!r}; it is activity or created")
        if tag is not None:
            check_name("tag name", tag[0])
            check_name("tag value", tag[1])
        if before is not None:
            check_number("before", before[0], least=0)
            check_name("conversation id", before[1])
        return await self._headers(owner, tag, order, before, limit)

    async def owners(self, *, after: str = "", limit: int = 100) -> list[str]:
        """Owners that have conversations, by code point. For operators: copies, sweeps, doctors."""
        self._check_open()
        check_name("owner", after, empty=True)
        _check_limit(limit)
        return await self._owners(after, limit)

    async def open_calls(
        self, owner: str, *, status: Collection[CallStatus] = OPEN, limit: int = 100
    ) -> list[Call]:
        """Calls of all of an owner's conversations that are not final, oldest first."""
        self._check_open()
        check_name("owner", owner)
        _check_limit(limit)
        if not OPEN.issuperset(status):
            raise InvalidOp(
                "calls across conversations are found while they are open; final ones by conversation"
            )
        return await self._open_calls(owner, status, limit)

    async def find(self, owner: str, name: str, value: str, *, limit: int = 1000) -> list[Found]:
        """Where an owner's tag of this name and value is, by conversation id and ref."""
        self._check_open()
        check_name("owner", owner)
        check_name("tag name", name)
        check_name("tag value", value)
        _check_limit(limit)
        return await self._find(owner, name, value, limit)

    async def search(self, owner: str, text: str, *, phrase: bool = False, limit: int = 20) -> list[Hit]:
        """
        Events of an owner whose search text has all words of ``text``, best first.

        Case and accents do not matter, and the last word may be the beginning of one. With
        ``phrase`` the words must stand next to each other. The text is never a query language:
        quotes, ``%`` and ``*`` are no operators. Without any word nothing is found.
        """
        self._check_open()
        check_name("owner", owner)
        _check_limit(limit)
        if type(text) is not str:
            raise InvalidOp(f"search takes a text, not {type(text).__name__}")
        query = Query.of(text, phrase=phrase)
        return await self._search(owner, query, limit) if query.words else []

    # Time and ownership

    async def due(self, *, limit: int = 100) -> list[Call]:
        """Calls of all owners whose expiry has passed, longest first: a hint, the move decides."""
        self._check_open()
        _check_limit(limit)
        return await self._due(limit)

    async def acquire(self, key: ConversationKey, holder: str, *, ttl: float) -> Lease | None:
        """
        Take the conversation's lease; None while another holder's lives.

        Each success has a fence greater than every one before it, and makes the older ones
        void. A lease that ran out counts as a takeover in the header.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        self._check_open()
        check_key(key)
        check_name("holder", holder)
        _check_ttl(ttl)
        return await self._acquire(key, holder, ttl)

    async def claim(
        self, holder: str, *, agents: Collection[str] | None = None, limit: int = 1, ttl: float
    ) -> list[Lease]:
        """
        Take leases of conversations that have work and no living lease, longest waiting first.

        ``agents`` are the names this holder can run (None: any). Of two holders that claim at
        once, each conversation goes to one.
        """
        self._check_open()
        check_name("holder", holder)
        _check_names("agent", agents)
        _check_ttl(ttl)
        _check_limit(limit)
        return await self._claim(holder, agents, limit, ttl)

    async def renew(self, leases: Sequence[Lease], *, ttl: float) -> list[Lease]:
        """Prolong leases; those that ran out, were taken over or released are missing in the answer."""
        self._check_open()
        _check_ttl(ttl)
        return await self._renew(leases, ttl)

    async def release(self, lease: Lease, *, defer: float | None = None) -> None:
        """
        Give a lease back; one that is no longer held is left alone.

        ``defer`` marks the conversation as having work that many seconds from now, for others.
        """
        self._check_open()
        if defer is not None:
            check_duration("defer", defer, zero=True)
        await self._release(lease, defer)

    # Hints

    @contextlib.asynccontextmanager
    async def watch(
        self, keys: Collection[ConversationKey] | None = None
    ) -> AsyncIterator[AsyncIterator[Notice]]:
        """
        Hints that conversations changed, or that somebody signalled; None watches all of them.

        A change is noticed at most ``limits.watch_delay`` late, several may come as one, and one
        too many may come: read the log. Signals can be lost. The hints end when the store is closed.
        """
        self._check_open()
        async with self._watch(None if keys is None else frozenset(keys)) as notices:
            yield notices

    async def signal(self, key: ConversationKey, payload: bytes) -> None:
        """Send bytes to whoever watches the conversation now. Nothing is stored, nothing is promised."""
        self._check_open()
        check_key(key)
        await self._signal(key, payload)

    # Whole conversations

    async def delete(self, key: ConversationKey, *, when: int | None = None) -> Erased:
        """
        Remove a conversation and all that belongs to it; an unknown one counts as nothing.

        With ``when``, only if the header still has that ``revision``. A writer that comes late
        gets ``NotFound`` and brings nothing back.

        Raises:
            StaleHeader: The conversation was changed since.
        """
        self._check_open()
        check_key(key)
        check_number("when", when, least=0)
        return await self._delete(key, when)

    async def erase(self, owner: str) -> Erased:
        """
        Remove everything of an owner, and count it. Interrupted, it goes on when called again.

        Afterwards no row of the owner remains, and after ``scrub`` no byte either where
        ``limits.scrub`` says so.
        """
        self._check_open()
        check_name("owner", owner)
        erased = Erased()
        while page := await self._headers(owner, None, "created", None, 100):
            for header in page:
                erased += await self._delete(header.key, None)
        return erased

    async def fork(
        self,
        key: ConversationKey,
        new_id: str,
        *,
        at: int | None = None,
        collections: Collection[str] = (),
        ops: Sequence[Op] = (),
    ) -> Header:
        """
        Make a conversation of the same owner that starts with this one's events up to ``at``.

        It gets title, agent, metadata and settings, the events with their ids and search text,
        and the records of ``collections``; no calls, tags, tokens, lease or work. ``ops`` are
        applied on top, and only then it can be seen.

        Raises:
            NotFound: There is no such conversation for this owner.
            AlreadyExists: There is one under ``new_id``.
            InvalidOp: The log ends before ``at``.
        """
        self._check_open()
        check_key(key)
        check_number("at", at, least=0)
        change = self._change(ConversationKey(key.owner, new_id), ops, create=SetHeader(when=ABSENT))
        return await self._fork(key, change, at, frozenset(collections))

    # Upkeep

    async def settle(self) -> None:
        """Wait until activity order and search have everything that was committed before."""
        self._check_open()
        await self._settle()

    async def scrub(self) -> None:
        """Remove the bytes that deleted and redacted things left behind, where ``limits.scrub`` says so."""
        self._check_open()
        await self._scrub()

    def _change(
        self,
        key: ConversationKey,
        ops: Sequence[Op],
        *,
        token: str | None = None,
        expect: int | None = None,
        fence: int | None = None,
        create: SetHeader | None = None,
        at: int | None = None,
    ) -> Change:
        change = Change.of(key, ops, token=token, expect=expect, fence=fence, create=create, at=at)
        if change.size > self.limits.max_commit:
            raise TooLarge(change.size, self.limits.max_commit)
        return change

    def _check_open(self) -> None:
        if not self._opened:
            raise StoreClosed(self.url)


def _check_names(field: str, names: Collection[str] | None) -> None:
    for name in names or ():
        check_name(field, name, empty=True)


def check_key(key: object) -> None:
    """Refuse what is not the key of a conversation."""
    if type(key) is not ConversationKey:
        raise InvalidOp(f"a conversation is addressed by a ConversationKey, not by {type(key).__name__}")


def _check_limit(limit: int | None) -> None:
    check_number("limit", limit, least=1)


def _check_ttl(ttl: float) -> None:
    if not isinstance(ttl, (int, float)) or not 0 < ttl < 1e11:
        raise InvalidOp(f"ttl must be a number of seconds above 0, not {ttl!r}")
