"""L6: what breaks JSON columns and encoders comes back as it went in, or is refused with its path."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import pathlib
import socket
import sys
import threading
import unittest.mock
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from holdfast.errors import InvalidPayload
from holdfast.model import (
    MAX_DEPTH,
    Custom,
    Data,
    Input,
    Item,
    Message,
    ModelCall,
    NoticeRow,
    Resolution,
    RunStarted,
    State,
    StatePatch,
    Suspension,
    Text,
    ToolCall,
    ToolResult,
    UnknownEvent,
    decode,
    dumps,
    encode,
    loads,
)

NAN, INF = float("nan"), float("inf")


@dataclass
class Flight:
    number: str


class Seat(msgspec.Struct):
    row: int


class Plain(enum.Enum):
    A = "a"


class Word(enum.StrEnum):
    A = "a"


class Number(enum.IntEnum):
    ONE = 1


class Name(str):
    pass


class Size(int):
    pass


class Price(float):
    pass


class Untouchable:
    """Like a proxy without its context: it raises whatever one does with it."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("working outside of request context")


Point = collections.namedtuple("Point", "x y")


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


TORTURE = {
    "NUL": "a\0b",
    "lone high surrogate": "\ud800",
    "lone low surrogate": "x\udfff",
    "surrogates in the wrong order": "\udc00\ud800",
    "surrogate in a key": {"\ud800": {"\udfff": 1, "a": "\0"}, "b": 2},
    "astral": "😀",
    "separators": "\u2028\u2029\x7f\x80",
    "control characters": "".join(map(chr, range(32))),
    "text that looks escaped": "\\ud800 \\u0000 \\\\",
    "2**53 + 1": 2**53 + 1,
    "2**64": 2**64,
    "2**80": 2**80,
    "-2**80": -(2**80),
    "4300 digits": 10**4299,
    "minus zero": -0.0,
    "smallest float": 5e-324,
    "largest float": sys.float_info.max,
    "float that is whole": 1e16,
    "key order": {"b": 1, "a": 2, "": 3, "1": 4},
    "5 MB": "x" * 5_000_000,
    "5 MB of two bytes each": "é" * 2_500_000,
    "5 MB with a surrogate": "é" * 2_500_000 + "\ud800",
    "null, true, false": [None, True, False],
    "empty": [{}, [], "", {"": {}}],
    "deep": nested(MAX_DEPTH - 3),
}


@pytest.mark.parametrize("value", TORTURE.values(), ids=TORTURE.keys())
def test_a_value_comes_back_as_it_went_in(value: object) -> None:
    """L6: with its types, its key order and every character; in UTF-8 without a raw NUL."""
    written = dumps(value)

    assert repr(loads(written)) == repr(value)
    written.decode()
    assert b"\0" not in written


@pytest.mark.parametrize("value", TORTURE.values(), ids=TORTURE.keys())
def test_a_value_comes_back_from_inside_a_payload(value: object) -> None:
    """L6: the same in the fields of a typed payload."""
    payload = ToolResult("m1/0", "ok", (Data(value),))
    if isinstance(value, str):
        payload = msgspec.structs.replace(payload, parts=(Data(value), Text(value)))

    written = encode(payload)
    read = decode("tool_result", written)

    assert read == payload
    assert isinstance(read, ToolResult)
    assert isinstance(part := read.parts[0], Data)
    assert repr(part.value) == repr(value)
    assert encode(read) == written
    written.decode()
    assert b"\0" not in written


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    """L6: every JSON reader takes the escape; none takes the raw bytes."""
    assert dumps({"\ud800": "é\udfff"}) == '{"\\ud800":"é\\udfff"}'.encode()


def test_two_halves_of_a_character_become_the_character() -> None:
    """L6: a stream that cut inside an emoji gives two strings; joined they are the emoji again."""
    assert loads(dumps("\ud83d" + "\ude00")) == "😀"
    assert dumps({"\ud83d\ude00": "\ud83d\ude00\ud83d"}) == '{"😀":"😀\\ud83d"}'.encode()

    with pytest.raises(InvalidPayload, match="two keys"):
        dumps({"😀": 1, "\ud83d\ude00": 2})


@pytest.mark.parametrize("number", [NAN, INF, -INF])
@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (lambda x: Message("m", "user", (Text("null"), Data(1), ToolCall("c", "b", {"price": x}))),
         "$.parts[2].args.price"),
        (lambda x: Message("m", "user", (Custom("k", [[], [{"a b": x}]]),)), '$.parts[0].value[1][0]["a b"]'),
        (lambda x: Input((Data(x),)), "$.parts[0].value"),
        (lambda x: ToolResult("c", "ok", artifact={"deep": [{"er": [1, x]}]}), "$.artifact.deep[0].er[1]"),
        (lambda x: RunStarted(1, "person", "a", options={"t": x}), "$.options.t"),
        (lambda x: Suspension("c", 1, "approval", expires_in=x), "$.expires_in"),
        (lambda x: Resolution("c", 1, "edit", args=[x]), "$.args[0]"),
        (lambda x: Resolution("c", 1, "answer", answer=x), "$.answer"),
        (lambda x: StatePatch(set={"k": (1, x)}), "$.set.k[1]"),
        (lambda x: NoticeRow("n", "k", value={"v": x}), "$.value.v"),
        (lambda x: State(metadata={"k": x}), "$.metadata.k"),
        (lambda x: ModelCall("1", "m", {"temperature": x}), "$.request.temperature"),
        (lambda x: Message("m\ud800", "user", (Data({"\udfff": x}),)), '$.parts[0].value["\\udfff"]'),
    ],
)  # fmt: skip
def test_nan_and_infinity_are_refused_wherever_they_hide(
    payload: Callable[[float], Any], path: str, number: float
) -> None:
    """L6: msgspec would write null in silence."""
    with pytest.raises(InvalidPayload, match="not JSON") as caught:
        encode(payload(number))

    assert caught.value.path == path


def a_function() -> None: ...


ALIENS: dict[str, object] = {
    "NaN": NAN,
    "datetime": datetime.datetime(2026, 7, 1, 10, 0),
    "date": datetime.date(2026, 7, 1),
    "timedelta": datetime.timedelta(1),
    "bytes": b"x",
    "bytearray": bytearray(b"x"),
    "memoryview": memoryview(b"x"),
    "Decimal": decimal.Decimal("1.5"),
    "UUID": uuid.UUID(int=1),
    "dataclass": Flight("HF101"),
    "struct": Seat(4),
    "a part": Text("hi"),
    "Raw": msgspec.Raw(b"1"),
    "set": {1},
    "empty frozenset": frozenset(),
    "Enum": Plain.A,
    "Path": pathlib.PurePath("/tmp"),
    "complex": 1j,
    "range": range(3),
    "generator": (x for x in "ab"),
    "function": a_function,
    "lambda": lambda: None,
    "class": Flight,
    "lock": threading.Lock(),
    "module": json,
    "object": object(),
    "exception": ValueError("no"),
    "UNSET": msgspec.UNSET,
    "key 1": {1: "a"},
    "key 1.5": {1.5: "a"},
    "key None": {None: "a"},
    "key True": {True: "a"},
    "key bytes": {b"a": "a"},
    "key tuple": {(1, 2): "a"},
    "key UUID": {uuid.UUID(int=1): "a"},
    "key date": {datetime.date(2026, 7, 1): "a"},
}


@pytest.mark.parametrize("alien", ALIENS.values(), ids=ALIENS.keys())
def test_what_would_not_come_back_is_refused_with_its_path(alien: object) -> None:
    """L6: msgspec turns dates, bytes, decimals, sets and objects into something else in silence."""
    with pytest.raises(InvalidPayload) as caught:
        dumps({"rows": [1, {"cell": alien}]})
    assert caught.value.path == "$.rows[1].cell"

    with pytest.raises(InvalidPayload) as caught:
        encode(ToolResult("c", "ok", (Data({"cell": alien}),)))
    assert caught.value.path == "$.parts[0].value.cell"


@pytest.mark.parametrize("alien", [Text("hi"), [Text("hi")], (Text("hi"),), unittest.mock.ANY])
def test_a_struct_or_a_chameleon_is_no_json_value(alien: object) -> None:
    """L6: not even one of ours, and not even what says that it equals the default."""
    with pytest.raises(InvalidPayload, match=r"\$\.artifact.* is a "):
        encode(ToolResult("c", "ok", artifact=alien))


def test_a_socket_is_refused_with_its_path() -> None:
    """L6"""
    with socket.socket() as alien, pytest.raises(InvalidPayload, match=r"\$\.conn is a socket\.socket"):
        dumps({"conn": alien})


def test_what_raises_when_it_is_touched_is_refused_with_its_path() -> None:
    """L6"""
    with pytest.raises(InvalidPayload, match="outside of request context") as caught:
        dumps({"user": Untouchable()})

    assert caught.value.path == "$.user"


@pytest.mark.parametrize(
    ("given", "back"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (Point(1, 2), [1, 2]),
        (Word.A, "a"),
        (Number.ONE, 1),
        (Name("n"), "n"),
        (Size(5), 5),
        (Price(1.5), 1.5),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({Word.A: 1, Name("n"): 2}, {"a": 1, "n": 2}),
    ],
)
def test_tuples_and_subclasses_of_json_types_come_back_as_those(given: object, back: object) -> None:
    """L6: equal in what they hold; a set has no order and is refused instead."""
    assert repr(loads(dumps({"x": given}))) == repr({"x": back})
    assert decode("notice", encode(NoticeRow("n", "k", value=given))) == NoticeRow("n", "k", value=back)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_beyond_the_digit_limit_is_a_clear_error(sign: int) -> None:
    """L6: Python refuses to read more than 4,300 digits, so they must not be written."""
    with pytest.raises(InvalidPayload, match="digits") as caught:
        dumps({"n": [sign * 10**4300]})
    assert caught.value.path == "$.n[0]"

    with pytest.raises(InvalidPayload):
        loads(b'{"n":%d' % sign + b"0" * 4300 + b"}")


def test_a_number_out_of_range_is_not_read_as_infinity() -> None:
    """L6: also beside a surrogate, where the standard library reads."""
    for text in (b"1e999", b'["\\ud800",-1e999]', b'["\\ud800",Infinity]'):
        with pytest.raises(InvalidPayload):
            loads(text)


def looped_list() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


def looped_dict() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize("value", [looped_list(), looped_dict()], ids=["list", "dict"])
def test_a_value_that_contains_itself_is_refused(value: object) -> None:
    """L6: a clear error, not a crash."""
    with pytest.raises(InvalidPayload, match="contains itself"):
        dumps(value)
    with pytest.raises(InvalidPayload, match="contains itself"):
        encode(Message("m", "user", (ToolCall("c", "n", value),)))


def test_absurd_nesting_is_refused_in_both_directions() -> None:
    """L6: a clear error, not a crash of the interpreter."""
    text = b"[" * 100_000 + b"]" * 100_000

    for attempt in (
        lambda: dumps(nested(100_000)),
        lambda: dumps(nested(MAX_DEPTH + 1)),
        lambda: encode(NoticeRow("n", "k", value=nested(100_000))),
        lambda: encode(NoticeRow("n", "k", value=nested(MAX_DEPTH))),
        lambda: encode(Item("x", msgspec.Raw(text))),
        lambda: encode(Item("x", msgspec.Raw(dumps(nested(MAX_DEPTH))))),
        lambda: encode(UnknownEvent("x", b'{"a":%b}' % text)),
        lambda: loads(text),
        lambda: decode("item", b'{"source":"x","value":%b}' % text),
        lambda: decode("notice", b'{"id":"n","kind":"k","value":%b}' % text),
    ):
        with pytest.raises(InvalidPayload) as caught:
            attempt()
        assert "too deeply" in caught.value.why
        assert len(str(caught.value)) < 500


def test_what_is_as_deep_as_allowed_can_be_read_from_a_deep_stack() -> None:
    """L6: a limit that depends on who asks would leave conversations that only some can read."""
    value = {"a": nested(MAX_DEPTH - 1), "b": [[] for _ in range(MAX_DEPTH)]}
    with_surrogate = {**value, "c": "\ud800"}

    def from_below(frames: int, action: Callable[[], Any]) -> Any:
        return action() if frames == 0 else from_below(frames - 1, action)

    for each in (value, with_surrogate):
        assert from_below(500, lambda each=each: loads(from_below(50, lambda: dumps(each)))) == each  # type: ignore[misc]


def test_brackets_inside_strings_are_no_nesting() -> None:
    """L6"""
    assert loads(dumps("[" * 5_000)) == "[" * 5_000
    assert loads(dumps([{"a": "[{" * 500}] * 300)) == [{"a": "[{" * 500}] * 300
