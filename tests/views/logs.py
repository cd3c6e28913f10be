"""Logs for the views: by hand in one line, and any that hypothesis can think of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from tests.model.strategies import PAYLOADS, many, maybe, parts

from holdfast.model import (
    Compaction,
    Event,
    Message,
    Replacement,
    Reset,
    Resolution,
    Retract,
    Rewrite,
    StatePatch,
    Suspension,
    Text,
    Thinking,
    Todo,
    ToolCall,
    ToolResult,
    ToolStarted,
    encode,
    entry,
    type_of,
)


def log(*payloads: Any, first: int = 1) -> list[Event]:
    """Events of these payloads, numbered from ``first``."""
    return [
        Event(seq, type_of(payload), encode(payload), seq * 1_000)
        for seq, payload in enumerate(payloads, first)
    ]


def user(text: str, id: str = "u") -> Message:
    return Message(id, "user", (Text(text),))


def says(text: str, id: str = "a", **fields: Any) -> Message:
    return Message(id, "assistant", (Text(text),), **fields)


def asks(*call_ids: str, id: str = "a", text: str = "") -> Message:
    said = (Text(text),) if text else ()
    return Message(id, "assistant", (*said, *(ToolCall(call, "book", {"n": 1}) for call in call_ids)))


def answers(call_id: str, text: str = "booked", **fields: Any) -> ToolResult:
    return ToolResult(call_id, fields.pop("outcome", "ok"), (Text(text),), **fields)


call_ids = st.sampled_from(["c1", "c2", "c3", "c4"])
seqs = st.integers(min_value=0, max_value=16)
words = st.sampled_from(["", " ", "\n", "yes", "no \ud800", "ja "])
flags = st.sampled_from([False, False, True])

_parts = st.one_of(
    st.builds(Text, words),
    st.builds(Thinking, words, maybe(st.just("sig")), maybe(st.just("enc"))),
    st.builds(ToolCall, call_ids, st.sampled_from(["book", "", "a b/c"]), unfinished=flags),
    st.builds(ToolCall, call_ids, st.just("find"), st.none(), st.just("p1"), st.just("{oops")),
    parts,
)
messages = st.builds(
    Message,
    id=st.sampled_from(["m1", "m2", "m3"]),
    role=st.sampled_from(["system", "user", "assistant", "assistant", "assistant"]),
    parts=many(_parts),
    partial=flags,
)
results = st.builds(
    ToolResult,
    call_ids,
    st.sampled_from(["ok", "error", "unknown", "detached"]),
    many(st.builds(Text, words)),
)
_entries = many(st.one_of(messages, results).map(entry))

payloads: st.SearchStrategy[Any] = st.one_of(
    messages,
    messages,
    results,
    results,
    st.builds(ToolStarted, call_ids),
    st.builds(Suspension, call_ids, st.just(1), st.sampled_from(["approval", "question"])),
    st.builds(Resolution, call_ids, st.just(1), st.sampled_from(["approve", "edit"]), args=st.just({"n": 2})),
    st.builds(Compaction, st.just(0), seqs, seqs, words),
    st.builds(Rewrite, st.just(0), many(st.builds(Replacement, seqs, seqs, _entries))),
    st.builds(Retract, st.just(0), seqs, seqs),
    st.builds(Reset, st.just(0)),
    st.builds(
        StatePatch,
        todos=maybe(many(st.builds(Todo, call_ids, words))),
        set=st.dictionaries(call_ids, words, max_size=2),
        unset=many(call_ids),
    ),
    st.one_of(*PAYLOADS.values()),
)
_garbage = st.sampled_from([("message", b"{}"), ("message", b"nonsense"), ("later", b"{}"), ("reset", b"[]")])


@st.composite
def logs(draw: st.DrawFn, *, longest: int = 16) -> list[Event]:
    """Any log: nothing in it needs to make sense."""
    drawn: Sequence[Any] = draw(st.lists(st.one_of(payloads, payloads, payloads, _garbage), max_size=longest))
    pairs = [item if isinstance(item, tuple) else (type_of(item), encode(item)) for item in drawn]
    return [Event(seq, type, data, seq) for seq, (type, data) in enumerate(pairs, 1)]
