"""Folding: one change to each thing, and what can't be said in one commit."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidOp
from holdfast.store import (
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
from holdfast.store.fold import fold
from holdfast.testing.build import noted, pending, put, said, started


def test_appends_stay_in_order_and_point_to_the_first_of_their_id() -> None:
    ops = [noted(1), said("a", id="x"), said("b", id="y"), said("c", id="x"), noted(2), said("d", id="x")]

    net = fold(ops)

    assert net.appends == ops
    assert net.same_as == [None, None, None, 1, None, 1]


@given(ids=st.lists(st.sampled_from([None, "x", "y", "z"]), max_size=12))
def test_an_append_points_to_an_earlier_one_with_its_id_that_points_to_none(ids: list[str | None]) -> None:
    net = fold([Append("note", b"1", id=id) for id in ids])

    for at, (id, first) in enumerate(zip(ids, net.same_as, strict=True)):
        assert first == (None if id is None or id not in ids[:at] else ids.index(id))


@pytest.mark.parametrize(
    ("ops", "plain"),
    [
        ([], True),
        ([noted(1), said("a")], True),
        ([said("a", id="x")], False),
        ([noted(1), Wake()], False),
        ([SetHeader()], False),
    ],
)
def test_only_events_without_ids_are_plain(ops: list[Op], plain: bool) -> None:
    assert fold(ops).plain is plain


def test_changes_of_the_header_are_merged_and_the_last_of_each_field_counts() -> None:
    net = fold([SetHeader(title="a", agent="x"), SetHeader(title="b", when=7), SetHeader(tail=3)])

    assert net.header == SetHeader(title="b", agent="x", tail=3, when=7)


@pytest.mark.parametrize("order", [(7, 8), (8, 7), (ABSENT, 7)])
def test_the_header_is_changed_at_one_version(order: tuple[int, int]) -> None:
    with pytest.raises(InvalidOp, match="different versions"):
        fold([SetHeader(title="a", when=order[0]), SetHeader(agent="b", when=order[1])])


def test_the_same_version_may_be_asked_for_twice() -> None:
    net = fold([SetHeader(title="a", when=7), SetHeader(agent="b", when=7)])

    assert net.header == SetHeader(title="a", agent="b", when=7)


@pytest.mark.parametrize(
    "ops",
    [
        [pending("c"), pending("c")],
        [pending("c"), started("c")],
        [started("c"), pending("c")],
        [started("c"), MoveCall("c", "completed", frozenset(("executing",)))],
    ],
)
def test_a_call_is_changed_once(ops: list[Op]) -> None:
    with pytest.raises(InvalidOp, match="call 'c' is changed twice"):
        fold(ops)


def test_calls_keep_the_order_of_their_operations() -> None:
    net = fold([pending("z"), started("m"), pending("a"), started("b")])

    assert list(net.opens) == ["z", "a"]
    assert list(net.moves) == ["m", "b"]


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([put("a"), put("a")], "written twice"),
        ([put("a"), put("a", keep=True)], "written twice"),
        ([put("a"), DropRecords("notes", "a")], "drop first"),
        ([put("ab"), DropRecords("notes", prefix="a")], "drop first"),
        ([put("ab"), DropRecords("notes", prefix="")], "drop first"),
        ([DropRecords("notes", "a"), put("a", when=5)], "dropped and then put with `when`"),
        ([DropRecords("notes", prefix=""), put("a", when=ABSENT)], "dropped and then put with `when`"),
    ],
)
def test_a_record_is_changed_once(ops: list[Op], message: str) -> None:
    with pytest.raises(InvalidOp, match=message):
        fold(ops)


@pytest.mark.parametrize(
    "ops",
    [
        [DropRecords("notes", "a"), put("a")],
        [DropRecords("notes", prefix="a"), put("ab", keep=True)],
        [DropRecords("media", "a"), put("a", when=5)],
        [put("a"), DropRecords("media", "a"), DropRecords("notes", "b"), DropRecords("notes", prefix="ab")],
        [put("a"), put("a", collection="media")],
        [DropRecords("notes", "a"), DropRecords("notes", "a")],
    ],
)
def test_drops_come_first_and_other_records_do_not_matter(ops: list[Op]) -> None:
    net = fold(ops)

    assert net.drops == [op for op in ops if isinstance(op, DropRecords)]
    assert list(net.puts.values()) == [op for op in ops if isinstance(op, PutRecord)]


def test_a_tag_that_is_taken_back_in_the_same_commit_is_gone() -> None:
    net = fold([Tag("a", "b", "x"), Tag("a", "b", "y"), Tag("a", "c"), Untag("a", "b", "x"), Tag("a", "d")])

    assert list(net.tags) == [Tag("a", "b", "y"), Tag("a", "c"), Tag("a", "d")]
    assert net.untags == [Untag("a", "b", "x")]


def test_a_tag_that_is_taken_back_and_set_again_is_there() -> None:
    net = fold([Tag("a", "b"), Untag("a", "b"), Tag("a", "b"), Tag("a", "b")])

    assert list(net.tags) == [Tag("a", "b")]


@pytest.mark.parametrize(
    ("ops", "rest", "wake"),
    [
        ([Wake(5), Wake(3), Wake(9)], None, Wake(3)),
        ([Rest(), Wake(5)], Rest(), Wake(5)),
        ([Wake(5), Rest()], Rest(), None),
        ([Rest(release=True), Rest()], Rest(release=True), None),
        ([Rest(), Wake(1), Rest(release=True), Wake(4)], Rest(release=True), Wake(4)),
    ],
)
def test_rest_clears_what_was_marked_before_it(ops: list[Op], rest: Rest | None, wake: Wake | None) -> None:
    net = fold(ops)

    assert (net.rest, net.wake) == (rest, wake)


def test_redactions_are_kept() -> None:
    assert fold([Redact(3), noted(1), Redact(1)]).redacted == [3, 1]


@pytest.mark.parametrize("op", [5, None, "append", {"op": "Append"}, [noted(1)]])
def test_what_is_no_operation_is_refused(op: Any) -> None:
    with pytest.raises(InvalidOp, match="is not an operation"):
        fold([noted(1), op])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OpenCall("c", "tool", "executing"), "can't be opened as 'executing'"),
        (lambda: OpenCall("c", "tool", executor=cast(Any, "robot")), "no executor 'robot'"),
        (lambda: OpenCall("c", "tool", "pending", expires_in=5), "can't expire"),
        (lambda: OpenCall("c", "tool", "interrupted", expires_in=-1), "from 0 up"),
        (lambda: OpenCall("c", "tool", "interrupted", expires_in=float("nan")), "from 0 up"),
        (lambda: OpenCall("c", "tool", "interrupted", expires_in=True), "from 0 up"),
        (lambda: MoveCall("c", "completed", frozenset()), "must name the statuses"),
        (lambda: MoveCall("c", "pending", frozenset(("executing",))), "from 'executing' to 'pending'"),
        (lambda: MoveCall("c", "completed", frozenset(("completed",))), "from 'completed'"),
        (lambda: MoveCall("c", "expired", frozenset(("pending",))), "from 'pending' to 'expired'"),
        (lambda: MoveCall("c", "completed", frozenset(("pending",)), expires_in=5), "can't expire"),
        (lambda: MoveCall("c", "completed", frozenset(("pending",)), step=-1), "at least 0"),
        (lambda: PutRecord("n", "k", b"", when=1, keep=True), "not with both"),
        (lambda: PutRecord("n", "k", b"", when=-1), "at least 0"),
        (lambda: DropRecords("n"), "by `key` or by `prefix`"),
        (lambda: DropRecords("n", "k", "p"), "by `key` or by `prefix`"),
        (lambda: SetHeader(tail=0), "at least 1"),
        (lambda: SetHeader(takeovers=-1), "at least 0"),
        (lambda: SetHeader(when=True), "at least 0"),
        (lambda: Wake(-1), "from 0 up"),
        (lambda: Wake(float("inf")), "from 0 up"),
        (lambda: Redact(0), "at least 1"),
        (lambda: Append("note", b"1", text=cast(Any, 5)), "must be a string"),
    ],
)
def test_an_operation_that_can_never_work_fails_where_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(InvalidOp, match=message):
        make()
