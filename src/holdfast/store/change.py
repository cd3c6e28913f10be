"""A commit on its way into a store: checked and folded once, here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Self

import msgspec

from holdfast.errors import InvalidOp
from holdfast.ids import ConversationKey, check_name
from holdfast.store.fold import Net, fold
from holdfast.store.ops import ABSENT, Append, MoveCall, Op, OpenCall, PutRecord, SetHeader, check_number

_digest_encoder = msgspec.msgpack.Encoder(order="deterministic")
_SALT = blake2b.SALT_SIZE


class Change(msgspec.Struct, frozen=True):
    """
    What one call of ``Store.commit`` asks for.

    ``ops`` are the operations one by one, as the memory store applies them; ``net`` is what is
    left of them for every other backend.
    """

    key: ConversationKey
    ops: tuple[Op, ...]
    net: Net
    size: int
    token: str | None = None
    expect: int | None = None
    fence: int | None = None
    create: SetHeader | None = None
    at: int | None = None

    @classmethod
    def of(
        cls,
        key: ConversationKey,
        ops: Sequence[Op],
        *,
        token: str | None = None,
        expect: int | None = None,
        fence: int | None = None,
        create: SetHeader | None = None,
        at: int | None = None,
    ) -> Self:
        """
        Check the arguments of a commit.

        Raises:
            InvalidInput: One of them can never work.
        """
        if type(key) is not ConversationKey:
            raise InvalidOp(f"a conversation is addressed by a ConversationKey, not by {type(key).__name__}")
        if token is not None:
            check_name("token", token)
        check_number("expect", expect, least=0)
        check_number("fence", fence, least=0)
        check_number("at", at, least=0)
        if create is not None and create.when not in (None, ABSENT):
            raise InvalidOp(
                "`create` takes when=ABSENT or no `when`; use SetHeader(when=…) for an existing header"
            )
        ops = tuple(ops)
        net = fold(ops)
        if net.rest and (fence is None or expect is None):
            raise InvalidOp("a conversation is put to rest by its lease holder, with `fence` and `expect`")
        size = sum(map(_size, ops))
        return cls(key, ops, net, size, token, expect, fence, create, at)

    def time(self, now: int) -> int:
        """When it happened, as seen at ``now``."""
        return now if self.at is None else min(self.at, now)

    def digest(self, salt: bytes | None = None) -> bytes:
        """
        A salted hash of the operations, to tell whether a token comes back with the same ones.

        Salted, because it outlives a redaction of what it was made from.
        """
        salt = salt if salt is not None else os.urandom(_SALT)
        return salt + blake2b(_digest_encoder.encode(self.ops), digest_size=16, salt=salt).digest()

    def matches(self, digest: bytes) -> bool:
        """Whether a digest was made from these operations."""
        return self.digest(digest[:_SALT]) == digest


def _size(op: Op) -> int:
    match op:
        case Append() | PutRecord() | OpenCall():
            return len(op.data)
        case MoveCall():
            return len(op.data or b"")
        case SetHeader():
            return len(op.metadata or b"") + len(op.settings or b"")
    return 0
