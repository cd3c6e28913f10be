"""Operations for random tests: few names, so that they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from holdfast.model.records import MOVES, OPENED_AS, Call, CallStatus, Executor
from holdfast.store import (
    Append,
    DropRecords,
    MoveCall,
    Op,
    OpenCall,
    PutRecord,
    Redact,
    SetHeader,
    Tag,
    Untag,
    Wake,
)

COLLECTIONS = ("notes", "media")
RECORDS = ("a", "a/1", "b")
CALLS = ("call_1", "call_2", "call_3", "call_4", "call_5")
TAGS = (("topic", "travel"), ("topic", "food"))
WORDS = ("hello", "hello world", "wor")

SECONDS = st.sampled_from((1, 5, 20))


def thing(op: Op) -> object:
    """What can be changed once in a commit, if the operation changes such a thing."""
    match op:
        case OpenCall() | MoveCall():
            return op.call_id
        case PutRecord():
            return (op.collection, op.key)
        case SetHeader():
            return "header"
    return None


def set_header(agents: Sequence[str]) -> st.SearchStrategy[SetHeader]:
    """Changes of the header, without a guard."""
    return st.builds(
        SetHeader,
        title=st.sampled_from((None, "", "a trip")),
        status=st.sampled_from((None, "running")),
        agent=st.sampled_from((None, *agents)),
        metadata=st.sampled_from((None, b"[]")),
        settings=st.sampled_from((None, b"1")),
        tail=st.sampled_from((None, 1, 2, 9)),
        takeovers=st.sampled_from((None, 0, 3)),
    )


@st.composite
def moves(draw: st.DrawFn, call: Call | None = None) -> MoveCall:
    """Moves that the table of moves allows; given an open call, mostly one that it can make."""
    if call is not None and call.status in MOVES and draw(st.integers(0, 4)):
        to: CallStatus = draw(st.sampled_from(sorted(MOVES[call.status])))
        when = frozenset((call.status,))
        step = draw(st.sampled_from((None, call.step)))
    else:
        to = draw(st.sampled_from(sorted({to for moves in MOVES.values() for to in moves})))
        when = draw(st.frozensets(st.sampled_from([s for s in MOVES if to in MOVES[s]]), min_size=1))
        step = draw(st.sampled_from((None, None, 0, 1, 2)))
    call_id = call.call_id if call is not None else draw(st.sampled_from(CALLS))
    expires_in = draw(st.sampled_from((None, 1, 10))) if to in ("interrupted", "executing") else None
    return MoveCall(call_id, to, when, step, draw(st.sampled_from((None, b"", b"x"))), expires_in)


@st.composite
def opens(draw: st.DrawFn) -> OpenCall:
    """New calls."""
    status: CallStatus = draw(st.sampled_from(sorted(OPENED_AS)))
    executors: tuple[Executor, ...] = ("server", "human")
    expires_in = draw(st.sampled_from((None, 1, 10))) if status == "interrupted" else None
    return OpenCall(
        draw(st.sampled_from(CALLS)), "tool", status, draw(st.sampled_from(executors)), b"x", expires_in
    )


OPS: dict[type[Op], st.SearchStrategy[Any]] = {
    Append: st.builds(
        Append,
        st.sampled_from(("message", "notice")),
        st.sampled_from((b"1", b'{"text": "hello world, how are you"}')),
        id=st.sampled_from((None, None, "d-1", "d-2")),
        text=st.sampled_from((None, "", "Hello", "hello world, how are you", "the world")),
    ),
    OpenCall: opens(),
    DropRecords: st.one_of(
        st.builds(DropRecords, st.sampled_from(COLLECTIONS), key=st.sampled_from(RECORDS)),
        st.builds(DropRecords, st.sampled_from(COLLECTIONS), prefix=st.sampled_from(("", "a", "a/", "z"))),
    ),
    Tag: st.builds(Tag, st.just("topic"), st.sampled_from(("travel", "food")), st.sampled_from(("", "x"))),
    Untag: st.builds(
        Untag, st.just("topic"), st.sampled_from(("travel", "food")), st.sampled_from((None, "", "x"))
    ),
    Wake: st.builds(Wake, st.sampled_from((0, 1, 10))),
    Redact: st.builds(Redact, st.integers(1, 4)),
}
"""Operations that have no guard of a store in them."""

KINDS: list[type[Op]] = [
    Append,
    Append,
    OpenCall,
    MoveCall,
    MoveCall,
    PutRecord,
    PutRecord,
    DropRecords,
    SetHeader,
    Tag,
    Untag,
    Wake,
    Redact,
]
"""The operations that anybody can make, some of them more often."""
