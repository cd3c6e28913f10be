"""
What a commit does to a conversation, decided by the rules that the memory store runs.

Only what the commit touches is read; ``Applying`` works on that as if it were all there is, and what
it changed becomes the rows of an entry.
"""

from __future__ import annotations

import asyncio
import secrets

from msgspec.structs import replace

from holdfast.errors import AlreadyExists, NotFound, TokenConflict
from holdfast.ids import ConversationKey
from holdfast.model.records import FINAL, Commit, Event
from holdfast.store.change import Change
from holdfast.store.memory.commit import Applying, Conversation, given
from holdfast.store.objects.chain import Attempt, Draft, Start, Step
from holdfast.store.objects.index import tag_path
from holdfast.store.objects.names import Place, folder
from holdfast.store.objects.roots import Absent, Root
from holdfast.store.objects.rows import (
    CALL,
    ID,
    RECORD,
    TAG,
    TAGGED,
    TOKEN,
    CallRow,
    EventRow,
    RecordRow,
    TokenRow,
    event_key,
    key_of,
    names_of,
    pack,
    unpack_call,
    unpack_event,
    unpack_record,
    unpack_seq,
    unpack_tag,
    unpack_token,
)
from holdfast.store.objects.segments import Segments
from holdfast.store.objects.state import State, blank_header
from holdfast.store.ops import ABSENT, SetHeader
from holdfast.store.rules import guard
from holdfast.store.search import locate


class _Events(list[Event]):
    """The events that a commit adds, as a list; those that it changes, by their place in the log."""

    def __init__(self, old: dict[int, Event]) -> None:
        super().__init__()
        self.old = old

    def __getitem__(self, index: int) -> Event:  # type: ignore[override]
        return self.old[index + 1]

    def __setitem__(self, index: int, event: Event) -> None:  # type: ignore[override]
        self.old[index + 1] = event


def begin(key: ConversationKey, absent: Absent, header: SetHeader, now: int, at: int) -> Start:
    """A conversation that is about to be made, as one of ``at``."""
    incarnation = absent.incarnation(now)
    name, block = absent.root(now)
    place = Place(folder(key), secrets.token_hex(8))
    first = guard(incarnation, 0)
    blank = replace(blank_header(key), created_at=at, activity=at, revision=first, version=first)
    state = State(key, place, name, incarnation, replace(blank, **given(header)))
    return Start(state, Root(incarnation, place.uid, absent.dead), block)


async def decide(
    segments: Segments, head: State | Absent, change: Change, attempt: Attempt, now: int
) -> Step[Commit]:
    """Check a commit and say what it writes. Raises what ``Store.commit`` does."""
    key = change.key
    start = None
    if isinstance(head, Absent):
        if change.create is None:
            raise NotFound(key)
        start = begin(key, head, change.create, now, change.time(now))
        head = start.state
    touched = await _touched(segments, head, change)
    if change.token is not None and (row := touched.get(key_of(TOKEN, change.token))) is not None:
        first = unpack_token(row)
        if not change.matches(first.digest):
            raise TokenConflict(key, change.token)
        return Step(first.commit())
    if start is None and change.create is not None and change.create.when == ABSENT:
        raise AlreadyExists(key)
    conversation = _conversation(head, touched)
    before = _Before(conversation)
    commit = Applying(conversation, now).run(change)
    draft = before.draft(head, conversation)
    _index_tags(head, conversation, touched, draft, attempt)
    return Step(commit, draft, start)


async def _touched(segments: Segments, state: State, change: Change) -> dict[bytes, bytes]:
    """The rows that a commit looks at."""
    net = change.net
    keys = [key_of(ID, op.id) for op in net.appends if op.id is not None]
    keys += [key_of(CALL, call_id) for call_id in (*net.opens, *net.moves) if call_id not in state.calls]
    keys += [key_of(RECORD, *name) for name, put in net.puts.items() if put.when is not None or put.keep]
    keys += [event_key(seq) for seq in net.redacted if seq <= state.header.last_seq]
    keys += [key_of(TAG, op.name, op.value, op.ref) for op in net.tags]
    keys += [key_of(TAGGED, op.name, op.value) for op in net.tags]
    keys += [key_of(TAGGED, op.name, op.value) for op in net.untags]
    if change.token is not None:
        keys.append(key_of(TOKEN, change.token))
    prefixes = [key_of(TAG, op.name, op.value, "") for op in net.untags]
    for drop in net.drops:
        if drop.key is not None:
            keys.append(key_of(RECORD, drop.collection, drop.key))
        else:
            prefixes.append(key_of(RECORD, drop.collection, drop.prefix or ""))
    if not keys and not prefixes:
        return {}
    found = await asyncio.gather(
        segments.get(state, keys),
        *(segments.under(state, prefix) for prefix in prefixes),
    )
    return {key: value for some in found for key, value in some.items()}


def _conversation(state: State, touched: dict[bytes, bytes]) -> Conversation:
    """As much of a conversation as a commit touches. All calls that are open are there."""
    part = Conversation(state.incarnation, state.header)
    part.commits = state.commits
    events: dict[int, Event] = {}
    part.calls = {id: row.call(state.key) for id, row in state.calls.items()}
    for key, value in touched.items():
        match key[:1]:
            case b"i":
                part.ids[names_of(key)[0]] = unpack_seq(value)
            case b"c":
                part.calls[names_of(key)[0]] = unpack_call(value).call(state.key)
            case b"r":
                record = unpack_record(value).record(key)
                part.records[record.collection, record.key] = record
            case b"g":
                name, tag_value, ref = names_of(key)
                part.tags[name, tag_value, ref] = None
            case b"e":
                seq = int.from_bytes(key[1:], "big")
                events[seq] = unpack_event(value).event(seq)
    part.events = _Events(events)
    return part


class _Before:
    """What a part of a conversation was before a commit, to tell what the commit changed."""

    def __init__(self, part: Conversation) -> None:
        assert isinstance(part.events, _Events)
        self._events = dict(part.events.old)
        self._ids, self._calls = dict(part.ids), dict(part.calls)
        self._records, self._tags = dict(part.records), dict(part.tags)

    def draft(self, state: State, part: Conversation) -> Draft:
        """An entry with everything that is different now."""
        assert isinstance(part.events, _Events)
        draft = Draft(part.header, commits=part.commits)
        rows = draft.rows
        for event in part.events:
            text = part.texts.get(event.seq)
            where = locate(text, event.data) if text else None
            rows[event_key(event.seq)] = pack(EventRow(event.type, event.data, event.at, event.id, where))
        for seq, event in part.events.old.items():
            if event is not self._events[seq]:
                rows[event_key(seq)] = pack(EventRow(event.type, event.data, event.at, event.id, None))
                draft.redacted += 1
        rows.update((key_of(ID, id), pack(seq)) for id, seq in part.ids.items() if id not in self._ids)
        for name, record in part.records.items():
            if record is not self._records.get(name):
                rows[key_of(RECORD, *name)] = pack(RecordRow(record.data, record.revision))
        dropped = [key_of(RECORD, *name) for name in self._records.keys() - part.records.keys()]
        untagged = [key_of(TAG, *tag) for tag in self._tags.keys() - part.tags.keys()]
        rows.update(dict.fromkeys((*dropped, *untagged)))
        rows.update((key_of(TAG, *tag), b"") for tag in part.tags if tag not in self._tags)
        self._draft_calls(state, part, draft)
        for token, (digest, commit) in part.tokens.items():
            rows[key_of(TOKEN, token)] = pack(TokenRow.of(digest, commit))
        draft.dirty = bool(draft.redacted or dropped or untagged)
        return draft

    def _draft_calls(self, state: State, part: Conversation, draft: Draft) -> None:
        for call_id, call in part.calls.items():
            if call is self._calls.get(call_id):
                continue
            known = state.calls.get(call_id)
            order = known.order if known else state.opened + draft.opened
            draft.opened += known is None
            row = CallRow.of(order, call)
            if call.status in FINAL:
                draft.rows[key_of(CALL, call_id)] = pack(row)
                draft.ended += (call_id,)
            else:
                draft.calls += (row,)


def _index_tags(
    state: State, part: Conversation, touched: dict[bytes, bytes], draft: Draft, attempt: Attempt
) -> None:
    """Give a conversation entries for the tags that are new to it, and take those of the last ones away."""
    changed = {tuple(names_of(row)[:2]) for row in draft.rows if row[:1] == TAG}
    for name, value in changed:
        entry = key_of(TAGGED, name, value)
        has = any(tag[:2] == (name, value) for tag in part.tags)
        there = touched.get(entry)
        if has and there is None:
            tag = attempt.tag(f"tag {name}\0{value}")
            draft.rows[entry] = pack(tag)
            draft.index.append(tag_path(state.key, name, value, tag))
        elif there is not None and not has:
            draft.rows[entry] = None
            draft.unindex.append(tag_path(state.key, name, value, unpack_tag(there)))
