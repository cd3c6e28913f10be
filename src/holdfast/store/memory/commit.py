"""One commit, operation by operation, with a way back: the write rules as running code."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.clock import microseconds
from holdfast.errors import (
    Busy,
    Conflict,
    Fenced,
    NoSuchEvent,
    SeqConflict,
    StaleCall,
    StaleHeader,
    StaleRecord,
)
from holdfast.model.records import Call, Commit, Event, Header, Record
from holdfast.store.change import Change
from holdfast.store.ops import (
    ABSENT,
    Append,
    DropRecords,
    MoveCall,
    Op,
    OpenCall,
    PutRecord,
    Redact,
    Rest,
    SetHeader,
    Tag,
    Untag,
    Wake,
)
from holdfast.store.rules import (
    REDACTED,
    guard,
    is_tombstone,
    keeps_awake,
    may_move,
    moved,
    opened,
    tombstone,
)

_PRECEDENCE = (StaleCall, StaleRecord, StaleHeader, Busy, NoSuchEvent)
_K = TypeVar("_K")
_V = TypeVar("_V")


class Conversation:
    """Everything about one conversation."""

    def __init__(self, incarnation: int, header: Header) -> None:
        self.incarnation = incarnation
        self.header = header
        self.commits = 0
        self.fences = 0
        self.events: list[Event] = []
        self.texts: dict[int, str] = {}
        self.ids: dict[str, int] = {}
        self.calls: dict[str, Call] = {}
        self.records: dict[tuple[str, str], Record] = {}
        self.tags: dict[tuple[str, str, str], None] = {}
        self.tokens: dict[str, tuple[bytes, Commit]] = {}


class Applying:
    """One commit being applied to a conversation, with a way back."""

    def __init__(self, conversation: Conversation, now: int) -> None:
        self.to = conversation
        self.now = now
        self.prev_seq = conversation.header.last_seq
        self.prev_version = conversation.header.version
        self.revision = guard(conversation.incarnation, conversation.commits + 1)
        self.seqs: list[int] = []
        self.revisions: list[int] = []
        self.failures: list[Conflict] = []
        self.undo: list[Callable[[], Any]] = []

    def run(self, change: Change) -> Commit:
        to, key, before = self.to, self.to.header.key, self.to.header
        self.at = max(change.time(self.now), before.activity)
        if change.fence is not None and (before.lease is None or before.lease.fence != change.fence):
            raise Fenced(key, fence=change.fence)
        if change.expect not in (None, self.prev_seq):
            raise SeqConflict(key, expected=change.expect, actual=self.prev_seq)
        for op in change.ops:
            self.apply(op)
        if any(isinstance(op, Rest) for op in change.ops):
            self.failures += [Busy(key, call.call_id) for call in to.calls.values() if keeps_awake(call)]
        if self.failures:
            for step in reversed(self.undo):
                step()
            to.header = before
            raise min(self.failures, key=lambda failure: _PRECEDENCE.index(type(failure)))
        to.commits += 1
        moved_on = to.header.last_seq > self.prev_seq or any(isinstance(op, PutRecord) for op in change.ops)
        to.header = replace(
            to.header, revision=self.revision, activity=self.at if moved_on else before.activity
        )
        commit = Commit(tuple(self.seqs), tuple(self.revisions), self.prev_seq, to.header.last_seq, self.at)
        if change.token is not None:
            to.tokens[change.token] = (change.digest(), commit)
        return commit

    def apply(self, op: Op) -> None:
        to, key = self.to, self.to.header.key
        match op:
            case Append():
                self.append(op)
            case SetHeader():
                if op.when not in (None, self.prev_version):
                    self.failures.append(StaleHeader(key, expected=op.when, actual=self.prev_version))
                to.header = replace(to.header, version=self.revision, **given(op))
            case OpenCall():
                if op.call_id in to.calls:
                    self.failures.append(StaleCall(key, op.call_id))
                else:
                    self.set(to.calls, op.call_id, opened(key, op, self.now, self.at))
            case MoveCall():
                call = to.calls.get(op.call_id)
                if call is None or not may_move(call, op, self.now):
                    self.failures.append(StaleCall(key, op.call_id))
                else:
                    self.set(to.calls, op.call_id, moved(call, op, self.now))
            case PutRecord():
                self.put(op)
            case DropRecords():
                for name in [name for name in to.records if op.matches(*name)]:
                    self.drop(to.records, name)
            case Tag():
                self.set(to.tags, (op.name, op.value, op.ref), None)
            case Untag():
                for tag in [t for t in to.tags if t[:2] == (op.name, op.value) and op.ref in (None, t[2])]:
                    self.drop(to.tags, tag)
            case Wake():
                wake, mark = self.now + microseconds(op.after), to.header.wake_at
                to.header = replace(to.header, wake_at=wake if mark is None else min(wake, mark))
            case Rest():
                lease = None if op.release else to.header.lease
                to.header = replace(to.header, wake_at=None, lease=lease)
            case Redact():
                self.redact(op.seq)

    def append(self, op: Append) -> None:
        to = self.to
        if op.id is not None and op.id in to.ids:
            self.seqs.append(to.ids[op.id])
            return
        seq = to.header.last_seq + 1
        to.events.append(Event(seq, op.type, op.data, self.at, op.id))
        self.undo.append(to.events.pop)
        if op.id is not None:
            self.set(to.ids, op.id, seq)
        if op.text:
            self.set(to.texts, seq, op.text)
        to.header = replace(to.header, last_seq=seq)
        self.seqs.append(seq)

    def put(self, op: PutRecord) -> None:
        name = (op.collection, op.key)
        there = self.to.records.get(name)
        if op.keep and there is not None:
            self.revisions.append(there.revision)
            return
        if op.when not in (None, there.revision if there else ABSENT):
            self.failures.append(StaleRecord(self.to.header.key, *name))
        self.set(self.to.records, name, Record(*name, op.data, self.revision))
        self.revisions.append(self.revision)

    def redact(self, seq: int) -> None:
        if seq > self.prev_seq:
            self.failures.append(NoSuchEvent(self.to.header.key, seq))
            return
        event = self.to.events[seq - 1]
        if is_tombstone(event.type, event.data):
            return
        self.to.events[seq - 1] = replace(
            event, type=REDACTED, data=tombstone(event.type, event.data, os.urandom(16))
        )
        self.undo.append(lambda: self.to.events.__setitem__(seq - 1, event))
        self.drop(self.to.texts, seq)

    def set(self, there: dict[_K, _V], name: _K, value: _V) -> None:
        if name in there:
            self.undo.append(lambda old=there[name]: there.__setitem__(name, old))  # type: ignore[misc]
        else:
            self.undo.append(lambda: there.pop(name))
        there[name] = value

    def drop(self, there: dict[_K, _V], name: _K) -> None:
        if name in there:
            old = there.pop(name)
            self.undo.append(lambda: there.__setitem__(name, old))


def given(header: SetHeader) -> dict[str, Any]:
    """The fields that a ``SetHeader`` replaces."""
    fields = msgspec.structs.asdict(header)
    return {name: value for name, value in fields.items() if value is not None and name != "when"}
