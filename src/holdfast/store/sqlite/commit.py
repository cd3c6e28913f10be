"""
Applying a commit: first every check, then every write.

Nothing is written before the last check, so a commit that is refused leaves no trace in the
transaction that it shares with others.
"""

from __future__ import annotations

import os

import msgspec

from holdfast.clock import microseconds
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
from holdfast.ids import ConversationKey
from holdfast.model.records import Call, Commit
from holdfast.store.change import Change
from holdfast.store.fold import Net
from holdfast.store.ops import ABSENT, SetHeader
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
from holdfast.store.search import locate
from holdfast.store.sqlite.batch import SEQ_BITS, Batch, Head, Q
from holdfast.store.sqlite.index import unindex

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Commit).decode

_HEAD_FIELDS = ("status", "agent", "tail", "takeovers")
_PROFILE_FIELDS = ("title", "metadata", "settings")


def commit(batch: Batch, change: Change) -> Commit:
    """Apply one commit inside the batch's transaction. Raises what ``Store.commit`` does."""
    key, net = change.key, change.net
    head = batch.head(key)
    if head is not None and change.token is not None and (first := _first(batch, head, change)):
        return first
    if head is None and change.create is None:
        raise NotFound(key)
    if head is not None and change.create is not None and change.create.when == ABSENT:
        raise AlreadyExists(key)
    now = batch.now()
    if head is None:
        checks = _checked(batch, Head(0), change, now)
        head = _create(batch, key, change.create or SetHeader(), change.time(now))
    else:
        checks = _checked(batch, head, change, now)

    prev_seq, at = head.last_seq, max(change.time(now), head.activity)
    seqs = _append(batch, head, net, at)
    appended = head.last_seq > prev_seq
    if appended or net.puts:
        head.activity = at
    if appended and (net.plain or any(op.text for op in net.appends)):
        batch.mark_unsettled(head, prev_seq + 1)
    revisions: tuple[int, ...] = ()
    if not (net.plain and appended):
        head.changes += not appended
        batch.move(head)
        _write_calls(batch, head, change, checks.calls, now, at)
        revisions = _write_records(batch, head, net, checks.revisions)
        _write_marks(batch, head, key, net, now)
        _redact(batch, head, key, net)
        if net.header is not None:
            head.version = head.count
            batch.execute(Q.mark_version, (head.version, head.pk))
            set_header(batch, head.pk, net.header)
    result = Commit(tuple(seqs), revisions, prev_seq, head.last_seq, at)
    if change.token is not None:
        batch.execute(Q.remember_token, (head.pk, change.token, change.digest(), _encode(result)))
    batch.changed.add(key)
    return result


def _first(batch: Batch, head: Head, change: Change) -> Commit | None:
    row = batch.execute(Q.token, (head.pk, change.token)).fetchone()
    if row is None:
        return None
    if not change.matches(row[0]):
        raise TokenConflict(change.key, change.token or "")
    return _decode(row[1])


def _create(batch: Batch, key: ConversationKey, header: SetHeader, at: int) -> Head:
    pk = batch.execute(Q.create, (key.owner, key.id, at, at)).lastrowid
    assert pk is not None
    batch.execute(Q.create_profile, (pk,))
    set_header(batch, pk, header)
    head = Head(pk, activity=at)
    batch.remember(key, head)
    return head


def set_header(batch: Batch, pk: int, header: SetHeader) -> None:
    """Replace the given fields of a conversation's header."""
    for table, column, fields in (
        ("conversations", "pk", _HEAD_FIELDS),
        ("profiles", "conversation", _PROFILE_FIELDS),
    ):
        given = {field: value for field in fields if (value := getattr(header, field)) is not None}
        if given:
            columns = ", ".join(
                f"{f} = CAST(? AS TEXT)" if isinstance(v, bytes) else f"{f} = ?" for f, v in given.items()
            )
            batch.execute(f"UPDATE {table} SET {columns} WHERE {column} = ?", (*given.values(), pk))


class _Checks(msgspec.Struct):
    """What the checks read and the writes need: the calls to move, the revisions of the records to put."""

    calls: dict[str, Call] = msgspec.field(default_factory=dict)
    revisions: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)


_NOTHING = _Checks()


def _checked(batch: Batch, head: Head, change: Change, now: int) -> _Checks:
    key, net = change.key, change.net
    if change.fence is not None and (head.holder is None or change.fence != guard(head.pk, head.fences)):
        raise Fenced(key, fence=change.fence)
    if change.expect is not None and change.expect != head.last_seq:
        raise SeqConflict(key, expected=change.expect, actual=head.last_seq)
    if net.plain:
        return _NOTHING
    checks = _Checks()
    for call_id, move in net.moves.items():
        call = _call(batch, head, key, call_id)
        if call is None or not may_move(call, move, now):
            raise StaleCall(key, call_id)
        checks.calls[call_id] = call
    for call_id in net.opens:
        if _call(batch, head, key, call_id) is not None:
            raise StaleCall(key, call_id)
    for (collection, name), put in net.puts.items():
        if put.when is not None or put.keep:
            row = batch.execute(Q.record_revision, (head.pk, collection, name)).fetchone()
            if put.when is not None and put.when != (guard(head.pk, row[0]) if row else ABSENT):
                raise StaleRecord(key, collection, name)
            if put.keep and row and not any(drop.matches(collection, name) for drop in net.drops):
                checks.revisions[collection, name] = row[0]
    if net.header is not None and net.header.when not in (None, version := guard(head.pk, head.version)):
        raise StaleHeader(key, expected=net.header.when or 0, actual=version)
    if net.rest:
        _check_rest(batch, head, key, net, checks)
    for seq in net.redacted:
        if seq > head.last_seq:
            raise NoSuchEvent(key, seq)
    return checks


def _call(batch: Batch, head: Head, key: ConversationKey, call_id: str) -> Call | None:
    row = batch.execute(Q.call, (head.pk, call_id)).fetchone()
    return Call(key, *row) if row else None


def _check_rest(batch: Batch, head: Head, key: ConversationKey, net: Net, checks: _Checks) -> None:
    for (call_id,) in batch.execute(Q.calls_that_keep_awake, (key.owner, head.pk)).fetchall():
        if call_id not in net.moves:
            raise Busy(key, call_id)
    for call_id, move in net.moves.items():
        if keeps_awake(moved(checks.calls[call_id], move, 0)):
            raise Busy(key, call_id)


def _append(batch: Batch, head: Head, net: Net, at: int) -> list[int]:
    seqs: list[int] = []
    base = head.pk << SEQ_BITS
    for op, same_as in zip(net.appends, net.same_as, strict=True):
        if same_as is not None:
            seqs.append(seqs[same_as])
            continue
        if op.id is not None:
            if known := batch.execute(Q.seq_of_id, (head.pk, op.id)).fetchone():
                seqs.append(known[0])
                continue
            batch.execute(Q.remember_id, (head.pk, op.id, head.last_seq + 1))
        head.last_seq += 1
        search = locate(op.text, op.data) if op.text else None
        batch.append((base | head.last_seq, op.type, op.data, at, op.id, search))
        seqs.append(head.last_seq)
    return seqs


def _write_calls(batch: Batch, head: Head, change: Change, calls: dict[str, Call], now: int, at: int) -> None:
    for op in change.net.opens.values():
        c = opened(change.key, op, now, at)
        batch.execute(
            Q.open_call,
            (
                head.pk,
                c.key.owner,
                c.call_id,
                c.name,
                c.status,
                c.executor,
                c.step,
                c.data,
                c.opened_at,
                c.expires_at,
            ),
        )
    for call_id, move in change.net.moves.items():
        c = moved(calls[call_id], move, now)
        batch.execute(Q.move_call, (c.status, c.step, c.data, c.expires_at, head.pk, call_id))


def _write_records(batch: Batch, head: Head, net: Net, kept: dict[tuple[str, str], int]) -> tuple[int, ...]:
    for drop in net.drops:
        if drop.key is not None:
            batch.execute(Q.drop_record, (head.pk, drop.collection, drop.key))
        elif not drop.prefix:
            batch.execute(Q.drop_collection, (head.pk, drop.collection))
        elif end := after_prefix(drop.prefix):
            batch.execute(Q.drop_records_between, (head.pk, drop.collection, drop.prefix, end))
        else:
            batch.execute(Q.drop_records_from, (head.pk, drop.collection, drop.prefix))
    revisions = []
    for (collection, name), put in net.puts.items():
        if (collection, name) in kept:
            revisions.append(guard(head.pk, kept[collection, name]))
            continue
        batch.execute(Q.put_record, (head.pk, collection, name, head.count, put.data))
        revisions.append(guard(head.pk, head.count))
    return tuple(revisions)


def after_prefix(prefix: str) -> str | None:
    """The least string above all that start with ``prefix``; None if there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[i]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[:i] + chr(code)
    return None


def _write_marks(batch: Batch, head: Head, key: ConversationKey, net: Net, now: int) -> None:
    for untag in net.untags:
        where = (key.owner, untag.name, untag.value, head.pk)
        if untag.ref is None:
            batch.execute(Q.untag_all, where)
        else:
            batch.execute(Q.untag, (*where, untag.ref))
    for tag in net.tags:
        batch.execute(Q.tag, (key.owner, tag.name, tag.value, head.pk, tag.ref))
    if net.rest:
        batch.execute(Q.rest, (head.pk,))
        if net.rest.release:
            batch.execute(Q.let_go, (head.pk,))
            head.holder = None
    if net.wake:
        batch.execute(Q.wake, (head.pk, now + microseconds(net.wake.after)))


def _redact(batch: Batch, head: Head, key: ConversationKey, net: Net) -> None:
    if not net.redacted:
        return
    batch.flush()
    count = 0
    for seq in set(net.redacted):
        n = head.pk << SEQ_BITS | seq
        kind, data, search = batch.execute(Q.event_for_redaction, (n,)).fetchone()
        if is_tombstone(kind, data):
            continue
        if search is not None and (head.unsettled_from is None or seq < head.unsettled_from):
            unindex(batch, key.owner, [(n, search, data)])
        batch.execute(Q.redact, (REDACTED, tombstone(kind, data, os.urandom(16)), n))
        count += 1
    batch.execute(Q.mark_redacted, (count, head.pk))
