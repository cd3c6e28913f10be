"""A commit on its way to its script, and what the script says of it."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from holdfast.clock import microseconds
from holdfast.errors import (
    AlreadyExists,
    Busy,
    Fenced,
    HoldfastError,
    NoSuchEvent,
    NotFound,
    SeqConflict,
    StaleCall,
    StaleHeader,
    StaleRecord,
    TokenConflict,
)
from holdfast.model.records import FINAL, Commit
from holdfast.store.change import Change
from holdfast.store.redis import codec
from holdfast.store.redis.keys import Conversation
from holdfast.store.rules import REDACTED, tombstone

_encode = msgspec.msgpack.Encoder().encode

_FIRST_PAYLOAD = 12
_LARGEST = 1 << 53


class Again(Exception):
    """Something that the commit was made from has changed; make it again."""


class Read(msgspec.Struct):
    """What was read of a log before a redaction: of which conversation, up to where, and the events' rows."""

    base: str
    cuts: str
    upto: int
    rows: dict[int, bytes]


class Fork(msgspec.Struct):
    """A fork on its way: what is copied from where, and under which hidden name."""

    base: str
    cuts: str
    at: int
    name: str
    collections: list[str]


def keys_of(place: Conversation, *, plain: bool = False) -> list[bytes]:
    """The keys that a commit's script needs."""
    of, shard = place.of, place.shard
    keys = [place.head, place.log, of.active]
    if not plain:
        keys += [of.born, shard.owners, shard.numbers, place.names, place.open, of.tags, of.waiting]
        keys += [shard.due, shard.work]
    return keys


def is_plain(change: Change) -> bool:
    """Whether there is nothing but events without ids, for which there is a shorter script."""
    return change.net.plain and change.create is None and change.at is None


def events_of(change: Change) -> list[bytes]:
    """The events of a commit, without their times."""
    return [codec.event_body(op) for op in change.net.appends]


def arguments(change: Change, *, read: Read | None = None, fork: Fork | None = None) -> list[bytes]:
    """The operations in msgpack, then the payloads: the events first, because the script counts on that."""
    payloads = events_of(change)
    return [_encode(_operations(change, payloads, read, fork)), *payloads]


def answered(change: Change, answer: Any) -> Commit:
    """
    The result of a commit.

    Raises:
        HoldfastError: The script refused it.
        Again: It has to be made again.
    """
    if type(answer) is bytes:
        return _commit(change, answer)
    kind = answer[0].decode()
    if kind == "Seen":
        first, _, digest = answer[1].partition(b"\n")
        if not change.matches(digest):
            raise TokenConflict(change.key, change.token or "")
        return _commit(change, first)
    if kind == "Again":
        raise Again
    raise _refusal(change, kind, answer[1] if len(answer) > 1 else b"")


def _commit(change: Change, answer: bytes) -> Commit:
    numbers, *lists = answer.split(b";")
    previous, last, at, revision = map(int, numbers.split())
    if lists:
        seqs, revisions = (tuple(map(int, each.split())) for each in lists)
    else:
        seqs = tuple(range(previous + 1, last + 1))
        revisions = (revision,) * len(change.net.puts)
    return Commit(seqs, revisions, previous, last, at)


def _refusal(change: Change, kind: str, what: Any) -> HoldfastError:
    key, net = change.key, change.net
    match kind:
        case "NotFound":
            return NotFound(key)
        case "AlreadyExists":
            return AlreadyExists(key)
        case "Fenced":
            return Fenced(key, fence=change.fence or 0)
        case "SeqConflict":
            return SeqConflict(key, expected=change.expect or 0, actual=int(what))
        case "StaleCall":
            return StaleCall(key, what.decode())
        case "StaleRecord":
            return StaleRecord(key, *[*net.puts][what - 1])
        case "StaleHeader":
            expected = net.header.when if net.header else None
            return StaleHeader(key, expected=expected or 0, actual=int(what))
        case "Busy":
            return Busy(key, what.decode())
    assert kind == "NoSuchEvent", kind
    return NoSuchEvent(key, net.redacted[what - 1])


def _operations(
    change: Change, payloads: list[bytes], read: Read | None, fork: Fork | None
) -> dict[str, Any]:
    net = change.net
    ops: dict[str, Any] = {"owner": change.key.owner, "count": len(payloads)}

    def payload(data: bytes) -> int:
        payloads.append(data)
        return _FIRST_PAYLOAD + len(payloads) - 1

    if change.at is not None:
        ops["at"] = str(change.at)
    if change.create is not None:
        ops["create"] = codec.given(change.create)
        ops["absent"] = change.create.when is not None
    if any(op.id is not None for op in net.appends) or any(put.keep for put in net.puts.values()):
        ops["ids"] = [op.id or "" for op in net.appends]
        ops["same"] = [0 if same is None else same + 1 for same in net.same_as]
    if net.opens:
        ops["opens"] = [
            {
                **_row(op.call_id, op.status, op.expires_in),
                "name": op.name,
                "status": op.status,
                "executor": op.executor,
                "step": "1" if op.status == "interrupted" else "0",
                "data": payload(op.data),
            }
            for op in net.opens.values()
        ]
    if net.moves:
        ops["moves"] = [
            {
                **_row(op.call_id, op.to, op.expires_in),
                "to": op.to,
                "when": f" {' '.join(op.when)} ",
                **({} if op.step is None else {"step": str(op.step)}),
                **({} if op.data is None else {"data": payload(op.data)}),
            }
            for op in net.moves.values()
        ]
    if net.drops:
        ops["drops"] = [
            {"prefix": f"r{op.collection}\0{op.prefix}"}
            if op.key is None
            else {"member": f"r{op.collection}\0{op.key}"}
            for op in net.drops
        ]
    if net.puts:
        ops["puts"] = [
            {
                "name": f"{collection}\0{name}",
                "data": payload(put.data),
                "keep": put.keep and not any(drop.matches(collection, name) for drop in net.drops),
                **({} if put.when is None else {"when": str(put.when)}),
            }
            for (collection, name), put in net.puts.items()
        ]
    if net.untags:
        ops["untags"] = [
            {"prefix" if op.ref is None else "member": f"t{op.name}\0{op.value}\0{op.ref or ''}"}
            for op in net.untags
        ]
    if net.tags:
        ops["tags"] = [{"name": f"{tag.name}\0{tag.value}\0", "ref": tag.ref} for tag in net.tags]
    if net.rest is not None:
        ops["rest"] = {"release": net.rest.release}
    if net.wake is not None:
        ops["wake"] = str(microseconds(net.wake.after))
    if net.header is not None:
        when = {} if net.header.when is None else {"when": str(net.header.when)}
        ops["header"] = {"fields": codec.given(net.header), **when}
    if net.redacted:
        ops["redact"] = _redaction(net.redacted, read or Read("", "0", 0, {}), payload)
    if fork is not None:
        ops["fork"] = msgspec.to_builtins(fork)
    return ops


def _row(call_id: str, status: str, expires_in: float | None) -> dict[str, Any]:
    expires = {} if expires_in is None else {"expires": str(microseconds(expires_in))}
    return {"id": call_id, "final": status in FINAL, **expires}


def _redaction(seqs: list[int], read: Read, payload: Any) -> dict[str, Any]:
    tombs = []
    for seq in sorted(set(seqs) & read.rows.keys()):
        row = read.rows[seq]
        event = codec.event(seq, row)
        if event.type != REDACTED:
            body = tombstone(event.type, event.data, os.urandom(16))
            kept = b"\0".join((REDACTED.encode(), (event.id or "").encode(), b"", body))
            tombs.append({"index": seq - 1, "data": payload(row[: codec.STAMP] + kept)})
    return {
        "seqs": [min(seq, _LARGEST) for seq in seqs],
        "base": read.base,
        "cuts": read.cuts,
        "upto": read.upto,
        "tombs": tombs,
    }
