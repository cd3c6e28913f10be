"""
The rules that are the same in every backend that decides in Python.

Numbers that must never repeat for a key (revisions, versions, fences) are made of the
conversation's incarnation and a counter inside it, so nothing has to outlive a delete.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256

import msgspec

from holdfast.clock import microseconds
from holdfast.ids import ConversationKey
from holdfast.model.records import Call
from holdfast.store.ops import MoveCall, OpenCall

REDACTED = "redacted"
_TOMBSTONE = re.compile(rb'\{"type": ".*", "salt": "[0-9a-f]{32}", "hash": "[0-9a-f]{64}"\}')
_COUNTER_BITS = 32


def guard(incarnation: int, count: int) -> int:
    """A number that no other incarnation of the key can have."""
    return incarnation << _COUNTER_BITS | count


def opened(key: ConversationKey, op: OpenCall, now: int, at: int) -> Call:
    """The row of a new call. It waits for the first time if it is opened as interrupted."""
    return Call(
        key=key,
        call_id=op.call_id,
        name=op.name,
        status=op.status,
        executor=op.executor,
        step=1 if op.status == "interrupted" else 0,
        data=op.data,
        opened_at=at,
        expires_at=_expiry(op.expires_in, now),
    )


def may_move(call: Call | None, op: MoveCall, now: int) -> bool:
    """
    Whether a move wins.

    A call past its expiry can only expire or be cancelled, also if no sweeper ran yet; and it
    can't expire before, which a sweeper that was overtaken by a new expiry would try.
    """
    if call is None or call.status not in op.when or op.step not in (None, call.step):
        return False
    past = call.expires_at is not None and call.expires_at <= now
    return past if op.to == "expired" else not past or op.to == "cancelled"


def moved(call: Call, op: MoveCall, now: int) -> Call:
    """The row of a call after a move that wins."""
    waits_anew = op.to == "interrupted" and call.status != "interrupted"
    return msgspec.structs.replace(
        call,
        status=op.to,
        step=call.step + waits_anew,
        data=call.data if op.data is None else op.data,
        expires_at=_expiry(op.expires_in, now),
    )


def keeps_awake(call: Call) -> bool:
    """Whether the conversation can't rest because of this call."""
    return call.status == "detached" or (call.status == "executing" and call.executor == "server")


def tombstone(kind: str, data: bytes, salt: bytes) -> bytes:
    """What is left of a redacted event: its type, and a proof of what it was for who knows it."""
    digest = sha256(salt + data).hexdigest()
    return json.dumps({"type": kind, "salt": salt.hex(), "hash": digest}).encode()


def is_tombstone(kind: str, data: bytes) -> bool:
    """Whether an event was redacted. The type alone does not tell: anybody can append one of that name."""
    return kind == REDACTED and _TOMBSTONE.fullmatch(data) is not None


def _expiry(seconds: float | None, now: int) -> int | None:
    return None if seconds is None else now + microseconds(seconds)
