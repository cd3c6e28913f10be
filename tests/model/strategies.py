"""Payloads of every type, made by hypothesis, with all that JSON libraries stumble over."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st

from holdfast.model import (
    Cancel,
    Compaction,
    Custom,
    Data,
    Decision,
    Entry,
    Failure,
    File,
    Image,
    Inline,
    Input,
    Item,
    Message,
    ModelCall,
    NoticeLevel,
    NoticeRow,
    Option,
    Origin,
    Outcome,
    Question,
    Redacted,
    Replacement,
    Reset,
    Resolution,
    Retract,
    Rewrite,
    Role,
    RunEnded,
    RunOutcome,
    RunParked,
    RunStarted,
    State,
    StatePatch,
    StopReason,
    Stored,
    Summary,
    Suspension,
    SuspensionKind,
    Text,
    Thinking,
    Todo,
    TodoStatus,
    ToolCall,
    ToolResult,
    ToolStarted,
    UnknownPart,
    Url,
    Usage,
    UsageReport,
    dumps,
)
from holdfast.model.records import Executor

# Both halves of a character side by side are the character in JSON; that has a test of its own.
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

texts = st.one_of(
    st.text(max_size=12),
    st.text(st.sampled_from('\0\n"\\\x7f\u2028é😀\ud800\udbff\udc00\udfff{}[]v:'), max_size=6),
).filter(lambda text: not _PAIR.search(text))

integers = st.one_of(st.integers(), st.sampled_from([2**53 + 1, 2**63, 2**64, 2**80, -(2**80), 10**400]))
floats = st.floats(allow_nan=False, allow_infinity=False)

values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, floats, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
counts = st.integers(min_value=0, max_value=2**40)
verbatim = values.map(lambda value: msgspec.Raw(dumps(value)))


def one_of(literal: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(literal))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def many(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


usages = st.builds(Usage, counts, counts, counts, counts, counts, maybe(counts))
failures = st.builds(Failure, texts, texts, maybe(texts))
sources = st.one_of(
    st.builds(Url, texts), st.binary(max_size=9).map(Inline.of), st.binary(max_size=9).map(Stored.of)
)
unknown_parts = objects.map(
    lambda value: UnknownPart("hologram", dumps({**value, "type": "hologram"}).decode())
)
parts = st.one_of(
    st.builds(Text, texts),
    st.builds(Thinking, texts, maybe(texts), maybe(texts), maybe(texts)),
    st.builds(Image, sources, maybe(texts)),
    st.builds(File, sources, maybe(texts), maybe(texts)),
    st.builds(
        ToolCall,
        texts,
        texts,
        values,
        maybe(texts),
        maybe(texts),
        one_of(Executor),
        maybe(texts),
        st.booleans(),
    ),
    st.builds(Data, values, maybe(texts)),
    st.builds(Custom, texts, values),
    unknown_parts,
)
messages = st.builds(
    Message,
    id=texts,
    role=one_of(Role),
    parts=many(parts),
    inputs=many(counts),
    stop=maybe(one_of(StopReason)),
    stop_detail=maybe(texts),
    partial=st.booleans(),
    model=maybe(texts),
    usage=maybe(usages),
)
questions = st.builds(
    Question, texts, many(st.builds(Option, texts, maybe(texts), maybe(texts))), st.booleans(), st.booleans()
)
suspensions = st.builds(
    Suspension,
    call_id=texts,
    step=counts,
    kind=one_of(SuspensionKind),
    args_hash=maybe(texts),
    prompt=maybe(texts),
    question=maybe(questions),
    decisions=many(one_of(Decision)),
    expires_in=maybe(counts | floats),
    child=maybe(texts),
)
todos = st.builds(Todo, texts, texts, one_of(TodoStatus))

PAYLOADS: dict[str, st.SearchStrategy[Any]] = {
    "input": st.builds(
        Input,
        parts=many(parts),
        source=one_of(Origin),
        actor=maybe(texts),
        client_id=maybe(texts),
        call_id=maybe(texts),
        outcome=maybe(one_of(Outcome)),
    ),
    "message": messages,
    "run": st.one_of(
        st.builds(RunStarted, counts, one_of(Origin), texts, maybe(texts), maybe(texts), objects),
        st.builds(RunParked, counts, texts),
        st.builds(
            RunEnded, counts, one_of(RunOutcome), maybe(texts), maybe(failures), st.booleans(), maybe(texts)
        ),
    ),
    "cancel": st.builds(Cancel, counts, maybe(texts), maybe(texts)),
    "tool_started": st.builds(ToolStarted, texts, counts, maybe(counts), maybe(counts), maybe(texts)),
    "tool_result": st.builds(
        ToolResult, texts, one_of(Outcome), many(parts), maybe(failures), values, st.booleans()
    ),
    "suspension": suspensions,
    "resolution": st.builds(
        Resolution,
        call_id=texts,
        step=counts,
        decision=one_of(Decision),
        args_hash=maybe(texts),
        args=values,
        answer=values,
        reason=maybe(texts),
        actor=maybe(texts),
    ),
    "compaction": st.builds(Compaction, counts, counts, counts, texts, maybe(texts), maybe(usages)),
    "rewrite": st.builds(
        Rewrite,
        base=counts,
        replacements=many(st.builds(Replacement, counts, counts, many(st.builds(Entry, texts, verbatim)))),
        reason=maybe(texts),
        actor=maybe(texts),
    ),
    "retract": st.builds(Retract, counts, counts, counts, maybe(texts), maybe(texts)),
    "reset": st.builds(Reset, counts, maybe(texts), maybe(texts)),
    "redacted": st.builds(Redacted, texts, texts, texts),
    "state": st.builds(StatePatch, maybe(texts), maybe(many(todos)), objects, many(texts), maybe(texts)),
    "usage": st.builds(UsageReport, texts, usages, maybe(texts), maybe(counts)),
    "notice": st.builds(NoticeRow, texts, texts, texts, one_of(NoticeLevel), values, maybe(texts)),
    "item": st.builds(Item, texts, verbatim, maybe(texts)),
}

RECORDS: dict[Any, st.SearchStrategy[Any]] = {
    State: st.builds(State, counts, many(todos), objects, many(suspensions)),
    Summary: st.builds(Summary, counts, counts, texts, counts, maybe(texts), maybe(usages)),
    ModelCall: st.builds(
        ModelCall,
        id=texts,
        model=texts,
        request=values,
        at=counts,
        run=maybe(counts),
        message_id=maybe(texts),
        attempt=counts,
        latency=maybe(counts),
        first_chunk=maybe(counts),
        usage=maybe(usages),
        stop=maybe(one_of(StopReason)),
        failure=maybe(failures),
        summary=maybe(counts),
        evicted=many(counts),
    ),
}
