"""Which incarnation is the current one, whatever stopped writers did to the roots."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.store.objects.roots import EPOCH, HOUR, SKEW, Absent, Root, current

A, B, C = Root(100, "a"), Root(200, "b", ("h1",)), Root(300, "c", ("h1", "a"))
NIL = Root(100)


def living(roots: dict[str, Root], *closed: str) -> str | None:
    found = current(roots, closed)
    return None if isinstance(found, Absent) else found[1].uid


def absent(roots: dict[str, Root], *closed: str) -> Absent:
    found = current(roots, closed)
    assert isinstance(found, Absent)
    return found


@pytest.mark.parametrize(
    ("roots", "closed", "uid"),
    [
        ({"h1": A}, (), "a"),
        ({"h1": A, "a": B}, ("a",), "b"),
        ({"h1": A, "a": B, "b": C}, ("a", "b"), "c"),
        ({"h1": A, "a": B}, (), "b"),
        ({"a": B, "h0": NIL}, (), "b"),
    ],
)
def test_the_last_that_is_not_closed_lives(roots: dict[str, Root], closed: tuple[str, ...], uid: str) -> None:
    assert living(roots, *closed) == uid


def test_a_root_of_a_name_that_was_used_up_is_a_ghost_whatever_its_number() -> None:
    """It was written by somebody who was stopped, after the name was free again."""
    ghost = Root(999, "g")

    assert living({"h1": ghost, "a": B}) == "b"
    assert living({"h1": ghost, "a": B, "b": C}, "b") == "c"


def test_of_two_that_know_nothing_of_each_other_the_later_one_lives() -> None:
    assert living({"h5": Root(500, "new"), "a": Root(110, "ghost")}) == "new"


def test_what_ended_is_followed_by_a_root_of_its_name() -> None:
    found = absent({"h1": A, "a": B}, "a", "b")

    assert found.root(now=0) == ("b", None)
    assert set(found.dead) == {"h1", "a"}
    assert found.incarnation(now=0) == 201


def test_what_is_being_removed_is_followed_by_a_root_of_the_hour() -> None:
    """Its own name for a successor is taken away, so nobody else can use it any more."""
    found = absent({"h1": A, "a": NIL}, "a")
    now = (7 * HOUR + SKEW) * SECOND

    assert found.root(now) == ("h7", None)
    assert set(found.dead) == {"h1", "a"}
    assert found.incarnation(now=0) == 101


def test_a_name_of_the_hour_before_is_taken_away_while_a_clock_may_be_behind() -> None:
    early, late = 7 * HOUR * SECOND, (7 * HOUR + SKEW) * SECOND

    assert absent({}).root(early) == ("h7", "h6")
    assert absent({}).root(late) == ("h7", None)
    assert absent({"h6": NIL}).root(early) == ("h7", None)
    assert absent({"h7": NIL}).root(late) == ("h8", None)


def test_an_incarnation_is_greater_than_those_before_also_if_the_clock_goes_back() -> None:
    year = 365 * 86_400

    assert absent({}).incarnation((EPOCH + year) * SECOND) == year
    assert absent({"h1": Root(2 * year, "a")}, "a").incarnation((EPOCH + year) * SECOND) == 2 * year + 1
    assert absent({}).incarnation((EPOCH + 67 * year) * SECOND) < 2**31
