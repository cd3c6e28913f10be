"""
The rules of a commit over what was read of its conversation: first every check, then the plan.

Nothing here talks to a database. A dialect reads what ``Wanted`` names, from one moment, asks for
a plan, and writes it only if nobody has changed the conversation since.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Self

import msgspec

from holdfast.errors import (
    AlreadyExists,
    Busy,
    Fenced,
    NoSuchEvent,
    NotFound,
    SeqConflict,
    StaleCall,
    StaleHeader,
    StaleRecord,
    TokenConflict,
)
from holdfast.model.records import Call, Commit
from holdfast.store.change import Change
from holdfast.store.ops import ABSENT, Append, PutRecord
from holdfast.store.rules import REDACTED, guard, keeps_awake, may_move, moved, opened, tombstone

encode_commit = msgspec.msgpack.Encoder().encode
decode_commit = msgspec.msgpack.Decoder(Commit).decode

RecordName = tuple[str, str]


class Head(msgspec.Struct):
    """What a commit needs to know of a conversation. ``pk`` is its incarnation."""

    pk: int
    last_seq: int = 0
    commits: int = 0
    version: int = 0
    activity: int = 0
    fences: int = 0
    holder: str | None = None


class Wanted(msgspec.Struct):
    """What has to be read, beside the head and the token, to decide a commit."""

    calls: list[str]
    records: list[RecordName]
    ids: list[str]
    redacted: list[int]
    awake: bool

    @classmethod
    def of(cls, change: Change) -> Self:
        net = change.net
        return cls(
            calls=[*net.moves, *net.opens],
            records=[name for name, put in net.puts.items() if put.when is not None or put.keep],
            ids=[op.id for op in net.appends if op.id is not None],
            redacted=sorted(set(net.redacted)),
            awake=net.rest is not None,
        )


class Seen(msgspec.Struct):
    """
    What was read of a conversation for one commit, from one moment.

    ``new_pk`` is the number that a conversation which is not there would get, where the server gives
    it in advance. ``token`` is the digest and the result that the commit's token stands for,
    ``awake`` the calls that keep the conversation from resting, ``records`` the counters of revisions.
    """

    now: int = 0
    head: Head | None = None
    new_pk: int | None = None
    token: tuple[bytes, bytes] | None = None
    calls: dict[str, Call] = msgspec.field(default_factory=dict)
    awake: list[str] = msgspec.field(default_factory=list)
    records: dict[RecordName, int] = msgspec.field(default_factory=dict)
    ids: dict[str, int] = msgspec.field(default_factory=dict)
    events: dict[int, tuple[str, bytes]] = msgspec.field(default_factory=dict)


class Plan(msgspec.Struct):
    """
    What to write for one commit, if the head is still the one that it was made for.

    Beside this, ``change.net`` has what needs no decision: drops, tags, the header, the mark.
    """

    change: Change
    head: Head
    now: int
    commit: Commit
    events: list[tuple[int, Append]]
    opened: list[Call]
    moved: list[Call]
    puts: list[PutRecord]
    redacted: list[tuple[int, bytes]]
    creates: bool

    @property
    def commits(self) -> int:
        """The counter after this commit."""
        return self.head.commits + 1

    @property
    def activity(self) -> int:
        """The conversation's activity after this commit."""
        return self.commit.at if self.events or self.change.net.puts else self.head.activity

    @property
    def first_text(self) -> int | None:
        """The seq of the first event that search has to learn of."""
        return next((seq for seq, op in self.events if op.text), None)


def is_plain(change: Change) -> bool:
    """Whether a commit is nothing but events whose numbers the server can find out by itself."""
    exclusive = change.create is not None and change.create.when == ABSENT
    return (
        change.net.plain and bool(change.ops) and change.token is None and change.at is None and not exclusive
    )


def first_result(change: Change, seen: Seen) -> Commit | None:
    """
    What the commit did when its token came the first time.

    Raises:
        TokenConflict: That was another commit.
    """
    if seen.token is None:
        return None
    digest, result = seen.token
    if not change.matches(digest):
        raise TokenConflict(change.key, change.token or "")
    return decode_commit(result)


def check(change: Change, seen: Seen) -> None:
    """Make every check of a commit, in the order of the contract. Raises what ``Store.commit`` does."""
    key, head = change.key, seen.head
    if head is None and change.create is None:
        raise NotFound(key)
    if head is not None and change.create is not None and change.create.when == ABSENT:
        raise AlreadyExists(key)
    head = head or Head(0)
    if change.fence is not None and (head.holder is None or change.fence != guard(head.pk, head.fences)):
        raise Fenced(key, fence=change.fence)
    if change.expect is not None and change.expect != head.last_seq:
        raise SeqConflict(key, expected=change.expect, actual=head.last_seq)
    _check_calls(change, seen)
    _check_records(change, seen, head)
    header = change.net.header
    if header is not None and header.when not in (None, version := guard(head.pk, head.version)):
        raise StaleHeader(key, expected=header.when or 0, actual=version)
    if change.net.rest is not None:
        _check_rest(change, seen)
    for seq in change.net.redacted:
        if seq > head.last_seq:
            raise NoSuchEvent(key, seq)


def plan(change: Change, seen: Seen, head: Head) -> Plan:
    """What to write for a commit that passed its checks; ``head`` is a new one where none was seen."""
    net, now = change.net, seen.now
    at = max(change.time(now), head.activity)
    events, seqs = _append(change, seen.ids, head.last_seq)
    kept = {name: seen.records[name] for name in _kept(change, seen)}
    revision = head.commits + 1
    revisions = [guard(head.pk, kept.get(name, revision)) for name in net.puts]
    commit = Commit(tuple(seqs), tuple(revisions), head.last_seq, head.last_seq + len(events), at)
    return Plan(
        change=change,
        head=head,
        now=now,
        commit=commit,
        events=events,
        opened=[opened(change.key, op, now, at) for op in net.opens.values()],
        moved=[moved(seen.calls[call_id], op, now) for call_id, op in net.moves.items()],
        puts=[put for name, put in net.puts.items() if name not in kept],
        redacted=[
            (seq, tombstone(kind, data, os.urandom(16)))
            for seq, (kind, data) in seen.events.items()
            if kind != REDACTED
        ],
        creates=seen.head is None,
    )


def _check_calls(change: Change, seen: Seen) -> None:
    for call_id, move in change.net.moves.items():
        if not may_move(seen.calls.get(call_id), move, seen.now):
            raise StaleCall(change.key, call_id)
    for call_id in change.net.opens:
        if call_id in seen.calls:
            raise StaleCall(change.key, call_id)


def _check_records(change: Change, seen: Seen, head: Head) -> None:
    for name, put in change.net.puts.items():
        if put.when is not None:
            revision = guard(head.pk, seen.records[name]) if name in seen.records else ABSENT
            if put.when != revision:
                raise StaleRecord(change.key, *name)


def _check_rest(change: Change, seen: Seen) -> None:
    for call_id in seen.awake:
        if call_id not in change.net.moves:
            raise Busy(change.key, call_id)
    for call_id, move in change.net.moves.items():
        if keeps_awake(moved(seen.calls[call_id], move, seen.now)):
            raise Busy(change.key, call_id)


def _append(
    change: Change, known: dict[str, int], last_seq: int
) -> tuple[list[tuple[int, Append]], list[int]]:
    events: list[tuple[int, Append]] = []
    seqs: list[int] = []
    for op, same_as in zip(change.net.appends, change.net.same_as, strict=True):
        if same_as is not None:
            seqs.append(seqs[same_as])
        elif op.id is not None and op.id in known:
            seqs.append(known[op.id])
        else:
            last_seq += 1
            events.append((last_seq, op))
            seqs.append(last_seq)
    return events, seqs


def _kept(change: Change, seen: Seen) -> Iterable[RecordName]:
    """The records that are left as they are: they exist, and were not dropped just before."""
    for name, put in change.net.puts.items():
        if put.keep and name in seen.records and not any(drop.matches(*name) for drop in change.net.drops):
            yield name
