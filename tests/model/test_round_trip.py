"""What is encoded comes back, and what is decoded is written again with the same bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidPayload
from holdfast.model import (
    EVENT_TYPES,
    Cancel,
    Data,
    Entry,
    Item,
    Message,
    NoticeRow,
    Payload,
    Redacted,
    Replacement,
    Rewrite,
    RunStarted,
    State,
    Summary,
    Text,
    ToolCall,
    ToolResult,
    UnknownEvent,
    UnknownPart,
    codec,
    decode,
    decode_record,
    dumps,
    encode,
    entry,
    loads,
    type_of,
)

from .strategies import PAYLOADS, RECORDS, values


@pytest.mark.parametrize("type", PAYLOADS)
@settings(max_examples=40, deadline=None)
@given(random=st.data())
def test_every_payload_comes_back_equal_and_is_written_again_with_the_same_bytes(
    type: str, random: st.DataObject
) -> None:
    payload = random.draw(PAYLOADS[type])

    written = encode(payload)
    read = decode(type, written)

    assert type_of(payload) == type
    assert read == payload
    assert encode(read) == written


@pytest.mark.parametrize("record", RECORDS)
@settings(max_examples=40, deadline=None)
@given(random=st.data())
def test_every_derived_record_comes_back_equal(record: Any, random: st.DataObject) -> None:
    made = random.draw(RECORDS[record])

    written = encode(made)

    assert decode_record(record, written) == made
    assert encode(decode_record(record, written)) == written


@pytest.mark.parametrize("type", PAYLOADS)
@settings(max_examples=15, deadline=None)
@given(random=st.data())
def test_every_payload_is_utf8_json_text_that_the_standard_library_reads_alike(
    type: str, random: st.DataObject
) -> None:
    written = encode(random.draw(PAYLOADS[type]))

    assert b"\0" not in written
    assert json.loads(written.decode()) == loads(written)


@settings(max_examples=300, deadline=None)
@given(value=values)
def test_every_json_value_comes_back_with_its_types_and_its_key_order(value: object) -> None:
    written = dumps(value)

    # repr tells 1 from 1.0 and True, 0.0 from -0.0, and one order of keys from another.
    assert repr(loads(written)) == repr(value)
    assert dumps(loads(written)) == written
    written.decode()
    assert b"\0" not in written


def test_the_strategies_make_every_event_type() -> None:
    assert set(PAYLOADS) == EVENT_TYPES


@pytest.mark.parametrize(
    "payload",
    [
        Message("m1", "user", (Text("Guten Tag, 你好"),)),
        Message("m2", "assistant", (ToolCall("m2/0", "book", {"flight": "HF101", "seat": None}),)),
        ToolResult("m2/0", "ok", (Data([{"n": n} for n in range(500)]),)),
        Item("openai-agents", msgspec.Raw(b'{"role": "user"}')),
        RunStarted(1, "person", "travel", options={"depth": 1.5}),
        Cancel(1),
    ],
)
def test_an_ordinary_payload_never_takes_the_careful_way(
    payload: Payload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("took the careful way")

    for name in ("plain", "read", "parse"):
        monkeypatch.setattr(codec, name, fail)

    assert decode(type_of(payload), encode(payload)) == payload


def test_a_default_is_left_out_however_its_string_was_made() -> None:
    made = "".join(["ser", "ver"])
    payload = Message("m", "assistant", (ToolCall("m/0", "book", executor=made),))  # type: ignore[arg-type]

    written = encode(payload)

    assert b"executor" not in written
    assert encode(decode("message", written)) == written


def test_lists_are_taken_where_tuples_belong() -> None:
    payload = Message("m", "user", [Text("hi")])  # type: ignore[arg-type]

    assert decode("message", encode(payload)) == Message("m", "user", (Text("hi"),))


def test_an_unknown_field_is_ignored() -> None:
    assert decode("cancel", b'{"run":3,"mood":"calm"}') == Cancel(3)


def test_an_unknown_type_is_carried_with_its_bytes() -> None:
    stored = b'{ "b": 1,  "a": 1e2, "s": "\\ud800" }'

    event = decode("teleport", stored)

    assert event == UnknownEvent("teleport", stored)
    assert type_of(event) == "teleport"
    assert encode(event) == stored


@pytest.mark.parametrize("stored", [b"", b"[]", b'"x"', b"{", b'{"a":"\xff"}', b'{"a":NaN}'])
def test_an_unknown_event_that_is_no_json_object_is_not_written(stored: bytes) -> None:
    with pytest.raises(InvalidPayload):
        encode(UnknownEvent("teleport", stored))


class TestUnknownParts:
    STORED = (
        b'{"v":2,"id":"m","role":"assistant","parts":[{"type":"text","text":"look:"},'
        b'{"type":"hologram", "size":[ 1.50, 2 ], "type2":"\\u0041"},'
        b'{"type":"image","source":{"type":"satellite","orbit":7}},'
        b'{"type":"text","text":"nice"}],"stop":"end"}'
    )

    def test_a_part_of_an_unknown_tag_or_source_is_carried_unchanged(self) -> None:
        message = decode("message", self.STORED)

        assert isinstance(message, Message)
        hologram = UnknownPart("hologram", '{"type":"hologram", "size":[ 1.50, 2 ], "type2":"\\u0041"}')
        satellite = UnknownPart("image", '{"type":"image","source":{"type":"satellite","orbit":7}}')
        assert message.parts == (Text("look:"), hologram, satellite, Text("nice"))
        assert message.stop == "end"
        assert encode(message) == self.STORED

    def test_it_is_carried_beside_lone_surrogates_too(self) -> None:
        stored = self.STORED.replace(b"nice", b"\\udfff").replace(b"1.50", b'"\\ud800"')

        message = decode("message", stored)

        assert isinstance(message, Message)
        assert message.parts[3] == Text("\udfff")
        assert encode(message) == stored

    def test_it_is_carried_out_of_text_that_has_space_around_everything(self) -> None:
        spaced = self.STORED.replace(b'"parts":[', b' "parts" : [ ').replace(b"},{", b"} , {")

        message = decode("message", b"\n " + spaced + b"\n")

        assert message == decode("message", self.STORED)

    @pytest.mark.parametrize(
        ("part", "path"),
        [
            (b'{"type":"text"}', "$.parts[1]"),
            (b'{"type":"text","text":5}', "$.parts[1].text"),
            (b'{"text":"no tag"}', "$.parts[1]"),
            (b'"hello"', "$.parts[1]"),
        ],
    )
    def test_a_known_part_of_a_wrong_shape_is_an_error_with_its_path(self, part: bytes, path: str) -> None:
        stored = b'{"v":2,"id":"m","role":"user","parts":[{"type":"hologram"},%b]}' % part

        with pytest.raises(InvalidPayload) as caught:
            decode("message", stored)

        assert caught.value.path == path


class TestVerbatim:
    @pytest.mark.parametrize(
        "entry_json",
        [
            b'{ "a" : 1.50,\n "a" : 2 }',
            b'"\\ud800"',
            b"[1e2, 0.10]",
            '{"é": "\\u00e9"}'.encode(),
            b"null",
            b"1",
        ],
    )
    def test_a_foreign_entry_comes_back_byte_for_byte(self, entry_json: bytes) -> None:
        written = encode(Item("langgraph", msgspec.Raw(entry_json), "state"))

        item = decode("item", written)

        assert isinstance(item, Item)
        assert bytes(item.value) == entry_json
        assert entry_json in written

    def test_space_around_a_foreign_entry_is_no_part_of_it(self) -> None:
        written = encode(Item("claude", msgspec.Raw(b' {"a":1}\n')))

        assert decode("item", written) == Item("claude", msgspec.Raw(b'{"a":1}'))
        assert encode(decode("item", written)) == written

    @pytest.mark.parametrize(
        "entry_json",
        [b"", b"{", b"1,2", b'1,"source":"forged"', b'{"a":"\xff"}', b"[NaN]", b'"\0"'],
    )
    def test_what_is_not_one_json_value_is_refused_with_its_path(self, entry_json: bytes) -> None:
        with pytest.raises(InvalidPayload) as caught:
            encode(Item("x", msgspec.Raw(entry_json)))

        assert caught.value.path == "$.value"

    def test_an_entry_of_a_rewrite_is_an_event_of_its_own(self) -> None:
        stub = ToolResult("m1/0", "ok", (Text("[3 MB left out] \ud800"),))
        rewrite = Rewrite(4, (Replacement(17, 17, (entry(stub), Entry("future", msgspec.Raw(b"{}")))),))

        read = decode("rewrite", encode(rewrite))

        assert isinstance(read, Rewrite)
        [first, second] = read.replacements[0].entries
        assert decode(first.type, bytes(first.data)) == stub
        assert decode(second.type, bytes(second.data)) == UnknownEvent("future", b"{}")


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (Cancel("3"), "$.run"),  # type: ignore[arg-type]
        (Message("m", "tool"), "$.role"),  # type: ignore[arg-type]
        (Message("m", "user", (Text(5),)), "$.parts[0].text"),  # type: ignore[arg-type]
        (Message("m", "user", (Text("a"), "b")), "$.parts[1]"),  # type: ignore[arg-type]
        (Message("m", "user", inputs=(1, 2.5)), "$.inputs[1]"),  # type: ignore[arg-type]
        (Item("x", b"{}"), "$.value"),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_a_wrong_type_is_refused_when_it_is_written(payload: Payload, path: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        encode(payload)

    assert caught.value.path == path


@pytest.mark.parametrize(
    "stored", [b"", b"[]", b"{", b'{"run":"3"}', b"{}", b'{"run":NaN}', b'{"run":3}\xff']
)
def test_a_stored_payload_that_is_not_of_its_type_is_an_error(stored: bytes) -> None:
    with pytest.raises(InvalidPayload):
        decode("cancel", stored)


@pytest.mark.parametrize("value", [{"run": 3}, Text("hi"), None, "text", State()])
def test_type_of_refuses_what_no_event_carries(value: Any) -> None:
    with pytest.raises(InvalidPayload, match="no event carries"):
        type_of(value)


@pytest.mark.parametrize("value", [{"run": 3}, Text("hi"), None])
def test_encode_refuses_what_is_no_payload(value: Any) -> None:
    with pytest.raises(InvalidPayload, match="not a payload"):
        encode(value)


def test_a_tombstone_knows_what_it_replaced() -> None:
    # As stores write it: sha256(bytes.fromhex("00ff") + b'{"run":3}').
    stored = (
        b'{"type":"cancel","salt":"00ff",'
        b'"hash":"3e8e75db909e775eca2eb3e694b44f60c4d557b41d4c979811a681ed60e02281"}'
    )
    tombstone = decode("redacted", stored)

    assert isinstance(tombstone, Redacted)
    assert tombstone.type == "cancel"
    assert tombstone.matches(b'{"run":3}')
    assert not tombstone.matches(b'{"run":4}')
    assert not Redacted("cancel", "no hex", tombstone.hash).matches(b'{"run":3}')


def test_a_record_of_a_newer_version_says_to_upgrade() -> None:
    with pytest.raises(InvalidPayload, match="upgrade") as caught:
        decode_record(Summary, b'{"v":2,"from_seq":1,"to_seq":2,"text":"x"}')

    assert caught.value.path == "$.v"


@pytest.mark.parametrize(
    "value", [State(), Cancel(1), Text("a"), NoticeRow("n", "error"), Message("m", "user")]
)
def test_records_payloads_and_parts_are_frozen(value: Any) -> None:
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], None)
