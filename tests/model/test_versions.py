"""
Payloads of older versions are read, those of newer ones are carried along.

``payloads/`` has one file for each shape and version that was ever written, never changed afterwards:
``<type>.v<n>.json``. A change of shape without a new version breaks a test here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from holdfast.errors import InvalidPayload
from holdfast.model import (
    EVENT_TYPES,
    Derived,
    Message,
    ModelCall,
    Payload,
    State,
    Summary,
    Text,
    ToolCall,
    UnknownEvent,
    Usage,
    decode,
    decode_record,
    encode,
    type_of,
)
from holdfast.model.upcast import UPCASTS, Plain, Step, Upcasts

RECORDS: dict[str, Any] = {"record_state": State, "record_summary": Summary, "record_model_call": ModelCall}
FILES = {
    path.name: path.read_bytes().rstrip(b"\n") for path in (Path(__file__).parent / "payloads").iterdir()
}


def shape_of(file: str) -> str:
    return file.split(".")[0].replace("record_", "record/")


def version_of(file: str) -> int:
    return int(file.split(".")[1].removeprefix("v"))


def read(file: str) -> Any:
    name = file.split(".")[0]
    return decode_record(RECORDS[name], FILES[file]) if name in RECORDS else decode(name, FILES[file])


@pytest.mark.parametrize("file", FILES)
def test_every_version_that_was_ever_written_is_read_and_written_as_this_one(file: str) -> None:
    payload = read(file)

    assert not isinstance(payload, UnknownEvent)
    if version_of(file) == UPCASTS.version(shape_of(file)):
        assert encode(payload) == FILES[file]
    else:
        assert encode(payload).startswith(b'{"v":%d,' % UPCASTS.version(shape_of(file)))


@pytest.mark.parametrize("file", FILES)
def test_every_field_stands_in_the_payload_that_is_kept(file: str) -> None:
    """Otherwise a field could change its name or meaning and no file here would notice."""
    if version_of(file) == UPCASTS.version(shape_of(file)):
        missing = [
            name for name in read(file).__struct_fields__ if b'"%b":' % name.encode() not in FILES[file]
        ]
        assert missing == []


def test_every_shape_and_version_has_a_payload_that_is_kept() -> None:
    structs = {type(read(file)) for file in FILES}
    versions = {(shape_of(file), version_of(file)) for file in FILES}

    assert structs == {*get_args(Payload), *get_args(Derived)} - {UnknownEvent}
    assert versions == {
        (name, version)
        for name in {*EVENT_TYPES, *map(shape_of, RECORDS)}
        for version in range(1, UPCASTS.version(name) + 1)
    }


def test_a_message_of_version_1_is_read_as_parts() -> None:
    message = read("message.v1.json")

    assert message == Message(
        id="msg_01",
        role="assistant",
        parts=(
            Text("I found two flights to Lisbon.\nShall I book HF101?"),
            ToolCall("msg_01/0", "book", {"flight": "HF101", "price": 129.5}, provider_id="call_9"),
        ),
        inputs=(3,),
        stop="tool_calls",
        model="offline",
        usage=Usage(412, 57),
    )
    assert encode(message).startswith(b'{"v":2,')
    assert decode("message", encode(message)) == message


@pytest.mark.parametrize("text", [b'"text":"\\ud800"', b'"text":""', b'"v":1'])
def test_a_message_of_version_1_may_have_any_text_or_none(text: bytes) -> None:
    message = decode("message", b'{"id":"m","role":"user",%b}' % text)

    assert isinstance(message, Message)
    assert message.text == ("\ud800" if b"ud800" in text else "")


@pytest.mark.parametrize(
    "data",
    [
        b'{"id":"m","role":"user","calls":5}',
        b'{"id":"m","role":"user","calls":[1]}',
        b'{"id":"m","role":"user","parts":[]}',
        b'{"role":"user","text":"no id"}',
        b"[]",
    ],
)
def test_what_is_no_message_of_version_1_is_an_error(data: bytes) -> None:
    with pytest.raises(InvalidPayload):
        decode("message", data)


@pytest.mark.parametrize("type", sorted(EVENT_TYPES))
@pytest.mark.parametrize(
    "layout", [b'{"v":%d,"x":1.50}', b'{ "x":"\\ud800" , "v" : %d }', b'{"run":1,"v":%d}']
)
def test_a_newer_version_is_carried_along_byte_for_byte(type: str, layout: bytes) -> None:
    data = layout % (UPCASTS.version(type) + 1)

    event = decode(type, data)

    assert event == UnknownEvent(type, data)
    assert type_of(event) == type
    assert encode(event) == data


@pytest.mark.parametrize("version", [b"0", b"-1", b"true", b'"2"', b"1.5", b"null"])
def test_a_version_that_is_none_is_an_error(version: bytes) -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode("cancel", b'{"run":1,"v":%b}' % version)

    assert caught.value.path == "$.v"


def test_a_key_v_inside_a_payload_is_no_version() -> None:
    data = b'{"id":"n","kind":"k","value":{"v":7}}'

    assert encode(decode("notice", data)) == data


class TestUpcasts:
    def test_steps_are_applied_in_order_from_the_version_that_was_stored(self) -> None:
        def adding(mark: str) -> Step:
            return lambda old: {**old, "steps": [*old.get("steps", []), mark]}

        upcasts = Upcasts([("x", 2, adding("2→3")), ("x", 1, adding("1→2"))])

        assert upcasts.version("x") == 3
        assert upcasts.version("y") == 1
        assert upcasts.apply("x", 1, {}) == {"steps": ["1→2", "2→3"]}
        assert upcasts.apply("x", 2, {}) == {"steps": ["2→3"]}
        assert upcasts.apply("x", 3, {}) == {}

    @pytest.mark.parametrize("versions", [[2], [1, 3], [1, 1], [0, 1]])
    def test_a_chain_with_a_gap_or_a_fork_is_refused_when_it_is_made(self, versions: list[int]) -> None:
        def unchanged(old: Plain) -> Plain:
            return old

        with pytest.raises(ValueError, match="'x'"):
            Upcasts([("x", version, unchanged) for version in versions])

    def test_every_chain_is_of_a_shape_that_exists(self) -> None:
        assert set(map(shape_of, FILES)) >= UPCASTS.names
