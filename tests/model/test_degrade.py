"""L33: what a tool gives back that is not JSON becomes text with a mark, never a crash, never a pickle."""

from __future__ import annotations

import datetime
import decimal
import functools
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import MAX_DEPTH, Data, ToolResult, decode, degrade, dumps, encode, entry, loads
from holdfast.model.events import Replacement, Rewrite

from .strategies import values
from .test_torture import ALIENS, Untouchable, looped_dict, looped_list, nested

HERE = __name__


@dataclass
class Flight:
    number: str
    at: datetime.date
    api_key: str = field(default="sk-secret", repr=False)


class Seat(msgspec.Struct):
    row: int


class Pydantic:
    """What pydantic's models look like from outside."""

    def model_dump(self) -> dict[str, Any]:
        return {"city": "Lisbon", "when": datetime.date(2026, 7, 1)}


class Silent:
    pass


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Endless:
    def model_dump(self) -> dict[str, Any]:
        return {"next": Endless()}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (datetime.datetime(2026, 7, 1, 10, 0), "<datetime.datetime> 2026-07-01 10:00:00"),
        (decimal.Decimal("1.50"), "<decimal.Decimal> 1.50"),
        (uuid.UUID(int=1), "<uuid.UUID> 00000000-0000-0000-0000-000000000001"),
        (float("nan"), "<float> nan"),
        (float("-inf"), "<float> -inf"),
        (b"caf\xc3\xa9 \xff", "<bytes> café \\xff"),
        (ValueError("no seat"), "<ValueError> no seat"),
        (degrade, "<function> degrade"),
        (functools.partial, "<type> partial"),
        (Silent(), f"<{HERE}.Silent>"),
        (Broken(), f"<{HERE}.Broken> that can't be shown"),
        (threading.Lock(), "<_thread.lock> <unlocked _thread.lock object>"),
    ],
)
def test_a_value_that_is_not_json_becomes_text_with_its_type(given: object, text: str) -> None:
    """L33"""
    assert degrade({"rows": [given]}) == {"rows": [text]}


def test_an_integer_of_too_many_digits_becomes_hex() -> None:
    """L33"""
    assert degrade([16**4000, 1]) == ["<int> 0x1" + "0" * 4000, 1]


def test_what_raises_when_it_is_touched_takes_nothing_along() -> None:
    """L33"""
    left = degrade({"user": Untouchable(), "city": "Lisbon"})

    assert left == {"user": f"<{Untouchable.__module__}.Untouchable> that can't be shown", "city": "Lisbon"}


@pytest.mark.parametrize(
    ("given", "back"),
    [
        (
            Flight("HF101", datetime.date(2026, 7, 1)),
            {"$type": f"{HERE}.Flight", "number": "HF101", "at": "<datetime.date> 2026-07-01"},
        ),
        (Seat(4), {"$type": f"{HERE}.Seat", "row": 4}),
        (Pydantic(), {"$type": f"{HERE}.Pydantic", "city": "Lisbon", "when": "<datetime.date> 2026-07-01"}),
        (set("fedcba"), {"$type": "set", "items": ["a", "b", "c", "d", "e", "f"]}),
        (looped_dict(), {"self": "<dict> that contains itself"}),
        (looped_list(), [{"again": "<list> that contains itself"}]),
        ({1: "a", None: "b", "c": "d"}, {"<int> 1": "a", "<NoneType> None": "b", "c": "d"}),
        ({1: "a", "<int> 1": "b"}, {"<int> 1": "a", "<int> 1'": "b"}),
    ],
)
def test_what_has_fields_or_items_keeps_them(given: object, back: object) -> None:
    """L33: and a field that its class hides from repr() stays hidden."""
    assert degrade(given) == back


@settings(max_examples=100, deadline=None)
@given(value=values)
def test_json_is_left_alone(value: object) -> None:
    """L33: the same object comes back, so a caller sees whether anything was lost."""
    assert degrade(value) is value


@settings(max_examples=100, deadline=None)
@given(
    value=st.recursive(
        st.one_of(st.sampled_from(list(ALIENS.values())), values),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.one_of(st.integers(), st.text(max_size=3), st.none()), inner, max_size=3),
        ),
        max_leaves=8,
    )
)
def test_whatever_a_tool_gives_back_can_be_stored(value: object) -> None:
    """L33"""
    left = degrade(value)

    assert loads(dumps(left)) == left or left is value
    decode("tool_result", encode(ToolResult("c", "ok", (Data(left),), degraded=left is not value)))


@pytest.mark.parametrize(
    "value",
    [looped_list(), looped_dict(), Endless(), nested(100_000), nested(MAX_DEPTH), nested(MAX_DEPTH - 5)],
)
def test_loops_and_depth_are_cut_so_that_the_rest_fits_into_any_event(value: object) -> None:
    """L33"""
    result = ToolResult("c", "ok", (Data(degrade(value)),))

    rewrite = Rewrite(1, (Replacement(1, 1, (entry(result),)),))

    assert decode("rewrite", encode(rewrite)) == rewrite


def test_it_does_not_fail_at_the_end_of_the_stack_either() -> None:
    """L33: a tool may be called from deep inside other code."""

    def from_below(frames: int) -> Any:
        return degrade(nested(500)) if frames == 0 else from_below(frames - 1)

    for frames in (0, 400, 700, 850):
        dumps(from_below(frames))


def test_text_of_an_unknown_object_has_an_end() -> None:
    """L33"""
    assert len(degrade(b"x" * 5_000_000)) < 11_000
