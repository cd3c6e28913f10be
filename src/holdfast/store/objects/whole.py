"""
Deleting and forking whole conversations.

A delete ends the chain with an entry like any other: from then on the conversation does not exist.
What is left is removed after that, and can be by anybody.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.errors import AlreadyExists, HoldfastError, InvalidOp, NotFound, StaleHeader
from holdfast.ids import ConversationKey
from holdfast.model.records import Commit, Erased, Header
from holdfast.store.change import Change
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.chain import Attempt, Chain, Draft, Start, Step
from holdfast.store.objects.clearing import Clearing
from holdfast.store.objects.deciding import begin, decide
from holdfast.store.objects.heads import Heads
from holdfast.store.objects.merging import LARGEST, Merger
from holdfast.store.objects.names import Listing, Parts, folder
from holdfast.store.objects.packing import encode
from holdfast.store.objects.reads import Reads
from holdfast.store.objects.roots import Absent
from holdfast.store.objects.rows import (
    ID,
    RECORD,
    TAG,
    TAGGED,
    RecordRow,
    Rows,
    event_key,
    key_of,
    pack,
    seq_of,
    unpack_event,
    unpack_record,
)
from holdfast.store.objects.segments import Gone, Row, Segment, Segments
from holdfast.store.objects.state import State, checkpoint
from holdfast.store.ops import Redact, SetHeader
from holdfast.store.rules import REDACTED, guard

_EVENTS_A_SLICE = 4000


class _Again(HoldfastError):
    """What a fork was made from has changed since."""


class Whole:
    """What is done to whole conversations."""

    def __init__(
        self,
        bucket: Bucket,
        heads: Heads,
        segments: Segments,
        clearing: Clearing,
        chain: Chain,
        merger: Merger,
        reads: Reads,
        clock: Clock,
    ) -> None:
        self._bucket = bucket
        self._heads = heads
        self._segments = segments
        self._clearing = clearing
        self._chain = chain
        self._merger = merger
        self._reads = reads
        self._now = clock

    # Deleting

    async def delete(self, key: ConversationKey, when: int | None) -> Erased:
        async def close(head: State | Absent, attempt: Attempt) -> Step[tuple[State, Rows, Erased] | None]:
            if isinstance(head, Absent):
                return Step(None)
            if when not in (None, head.header.revision):
                raise StaleHeader(key, expected=when or 0, actual=head.header.revision)
            # Read before the end: after it anybody may remove the segments.
            rows = [await self._segments.under(head, kind) for kind in (RECORD, TAG, TAGGED)]
            erased = Erased(1, head.header.last_seq, head.opened, len(rows[0]), len(rows[1]))
            return Step((head, rows[2], erased), Draft(head.header, closed=True))

        ended = await self._chain.extend(key, close)
        if ended is None:
            return Erased()
        state, tagged, erased = ended
        self._heads.forget(self._heads.slot(folder(key)))
        await self._clearing.end(state, tagged)
        return erased

    # Forking

    async def fork(
        self, key: ConversationKey, change: Change, at: int | None, collections: frozenset[str]
    ) -> Header:
        while True:
            source = await self._heads.state(key)
            last = source.header.last_seq
            upto = last if at is None else at
            if not 0 <= upto <= last:
                raise InvalidOp(f"{key} can't be forked at seq {upto}: its log ends at {last}")
            absent = await self._heads.fresh(folder(change.key))
            if isinstance(absent, State):
                raise AlreadyExists(change.key)
            start = self._start(source, change.key, absent, upto)
            revealed = False
            try:
                start = await self._copy(source, start, upto, collections)
                header = await self._reveal(source, start, absent, change)
                revealed = True
            except (_Again, Gone):
                self._heads.forget(self._heads.slot(folder(key)))
                continue
            finally:
                if not revealed:
                    await self._discard(start.state)
            return await self._redact_again(source, change.key, header)

    def _start(self, source: State, new: ConversationKey, absent: Absent, at: int) -> Start:
        old = source.header
        header = SetHeader(old.title, None, old.agent, old.metadata, old.settings)
        now = self._now()
        start = begin(new, absent, header, now, now)
        forked = replace(start.state.header, last_seq=at, forked_from=source.key.id, forked_at=at)
        return replace(start, state=replace(start.state, header=forked))

    async def _copy(self, source: State, start: Start, at: int, collections: frozenset[str]) -> Start:
        """Write a conversation that nobody can see yet."""
        state = start.state
        made: list[Segment] = []
        async for rows in self._pieces(source, guard(state.incarnation, 1), at, collections):
            made += await self._merger.write(state, 1, f"{secrets.token_hex(4)}{len(made):04d}", [rows])
        saved = checkpoint(state, secrets.token_bytes(8), tuple(made), version=1, dirty=False)
        await self._bucket.create(state.place.checkpoint(1), encode(saved))
        return replace(start, state=replace(state, version=1, segments=tuple(made)))

    async def _pieces(
        self, source: State, revision: int, at: int, collections: frozenset[str]
    ) -> AsyncIterator[list[Row]]:
        """The rows of a fork, in pieces for a segment each."""
        rows: list[Row] = []
        for collection in collections:
            found = await self._segments.under(source, key_of(RECORD, collection, ""))
            records = ((key, unpack_record(value).data) for key, value in found.items())
            rows += [(key, pack(RecordRow(data, revision))) for key, data in records]
        size = sum(len(value or b"") for _, value in rows)
        for start in range(1, at + 1, _EVENTS_A_SLICE):
            end = min(start + _EVENTS_A_SLICE, at + 1)
            events = await self._segments.scan(source, event_key(start), event_key(end))
            rows += events.items()
            size += sum(map(len, events.values()))
            known = ((unpack_event(value).id, seq_of(key)) for key, value in events.items())
            rows += [(key_of(ID, id), pack(seq)) for id, seq in known if id is not None]
            if size >= LARGEST // 2:
                yield sorted(rows)
                rows, size = [], 0
        yield sorted(rows)

    async def _reveal(self, source: State, start: Start, absent: Absent, change: Change) -> Header:
        """
        Make a fork the current incarnation of its key.

        Raises:
            _Again: It has to be made anew: what it was made from is not the same any more.
        """
        plain = replace(change, create=None)

        async def make(head: State | Absent, attempt: Attempt) -> Step[Header]:
            if isinstance(head, State):
                raise AlreadyExists(change.key)
            if head != absent or attempt.losses:
                raise _Again
            attempt.losses += 1
            now = self._now()
            name, block = absent.root(now)
            step = await decide(self._segments, start.state, plain, attempt, now)
            assert step.draft is not None
            seen = replace(start, state=replace(start.state, root=name), block=block)
            return Step(step.draft.header, step.draft, seen)

        now = await self._heads.state(source.key)
        if (now.place, now.redactions) != (source.place, source.redactions):
            raise _Again
        return await self._chain.extend(change.key, make)

    async def _discard(self, state: State) -> None:
        listed = await self._bucket.listed(state.place.top)
        parts = Listing.of(listed).incarnations.get(state.place.uid, Parts())
        await self._clearing.segments(state.place, parts.segments, state.key)
        await self._bucket.delete(stat.path for stat in listed)

    async def _redact_again(self, source: State, fork: ConversationKey, header: Header) -> Header:
        """Redact what was redacted in the source while the fork was about to be seen."""

        async def redacted(now: State) -> list[int]:
            if now.place != source.place or now.redactions == source.redactions:
                return []
            events = await self._reads.events(now, 0, header.forked_at + 1, None)
            return [event.seq for event in events if event.type == REDACTED]

        try:
            seqs = await self._reads.of(source.key, redacted)
        except NotFound:
            return header
        if not seqs:
            return header
        change = Change.of(fork, [Redact(seq) for seq in seqs])

        async def redact(head: State | Absent, attempt: Attempt) -> Step[Commit]:
            return await decide(self._segments, head, change, attempt, self._now())

        await self._chain.extend(fork, redact)
        return (await self._heads.state(fork)).header
