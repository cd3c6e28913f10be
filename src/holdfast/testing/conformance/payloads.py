"""Payloads: what goes in comes out, byte for byte, however odd it is."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from holdfast.errors import InvalidOp, TooLarge
from holdfast.store import Append, MoveCall, Op, OpenCall, PutRecord, Redact, SetHeader, Store
from holdfast.testing.build import a_conversation, a_rich_conversation, interrupted, noted, put, said, seen
from holdfast.testing.conformance.topic import Topic
from holdfast.testing.kit import StoreKit

TORTURE = {
    "an escaped NUL": rb'{"out": "a\u0000b"}',
    "escaped lone surrogates": rb'{"a": "\ud800", "b": "\udfff\ud800", "\udc00": 1}',
    "a whole pair of surrogates": rb'"\ud83d\ude00"',
    "large numbers": b"[%d, -%d, 1e400, 0.1000000000000000055511151231257827, 1E+2, -0, -0.0]"
    % (2**80, 2**80),
    "numbers around 2**53": b"[9007199254740991, 9007199254740992, 9007199254740993]",
    "order of keys": b'{"b": 1, "a": 2, "B": 3, "": 4, "aa": 5}',
    "a key twice": b'{"a": 1, "a": 2}',
    "whitespace": b' \t\r\n{ "a" :\n[ 1 ,\t2 ] } \n',
    "not an object": b"null",
    "an empty string": b'""',
    "unicode": '"é e\u0301 \u2028 \u2029 \ufeff \uffff \U0010ffff 😀 東京"'.encode(),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "control characters": b'"\x01\x1f\x7f \xc2\x80"',
    "deep nesting": b"[" * 5_000 + b"]" * 5_000,
    "many keys": json.dumps({str(n): n for n in range(10_000)}).encode(),
    "quotes and backslashes": rb'''"\\ \" \/ ' `` $1 %s {0} \\u0000"''',
    "not JSON at all": b"hello",
}


def _equal(found: bytes, given: bytes) -> bool:
    """Whether two large values are equal: ``assert a == b`` would look for their difference for hours."""
    return found == given


class PayloadRules(Topic):
    @pytest.mark.parametrize("name", TORTURE)
    async def test_an_event_comes_back_byte_for_byte(self, store: Store, other: Store, name: str) -> None:
        """L6"""
        key = await a_conversation(store)

        await store.commit(
            key, [Append("message", TORTURE[name]), Append("message", TORTURE[name], text="hello")]
        )

        for reader in (store, other):
            assert [event.data for event in await reader.events(key)] == [TORTURE[name]] * 2
            assert [event.data for event in (await reader.load(key)).events] == [TORTURE[name]] * 2

    @pytest.mark.parametrize("name", TORTURE)
    async def test_metadata_and_settings_come_back_byte_for_byte(self, store: Store, name: str) -> None:
        """L6"""
        key = await a_conversation(store)

        await store.commit(key, [SetHeader(metadata=TORTURE[name], settings=TORTURE[name])])

        header = await store.header(key)
        [listed] = await store.headers("ada")
        assert header.metadata == header.settings == listed.metadata == listed.settings == TORTURE[name]

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\0",
            bytes(range(256)),
            bytes(range(255, -1, -1)) * 10,
            b"\xff\xfe\x80",
            b"\x1f\x8b\x08",
            b"x" * 100_000,
        ],
        ids=lambda data: f"{len(data)} bytes",
    )
    async def test_records_and_calls_keep_any_bytes(self, store: Store, other: Store, data: bytes) -> None:
        """L6"""
        key = await a_conversation(store)

        await store.commit(
            key, [PutRecord("notes", "a", data), OpenCall("opened", "tool", data=data), interrupted("moved")]
        )
        await store.commit(key, [MoveCall("moved", "completed", frozenset(("interrupted",)), data=data)])

        for reader in (store, other):
            [record] = await reader.records(key, "notes")
            calls = await reader.calls(key)
            loaded = await reader.load(key, records=[("notes", "a")])
            assert len(calls) == 2
            for found in (record.data, calls[0].data, calls[1].data, loaded.records["notes", "a"].data):
                assert _equal(found, data)

    async def test_five_megabytes_come_back(self, store: Store, other: Store) -> None:
        """L6: a TEXT column would cut them in silence."""
        key = await a_conversation(store)
        text = "a long tale of 😀 " * (5_000_000 // 18)
        data = json.dumps({"text": text}, ensure_ascii=False).encode()

        await store.commit(key, [Append("message", data, text=text), put("a", data)])

        [event] = await other.events(key)
        [record] = await other.records(key, "notes")
        assert _equal(event.data, data)
        assert _equal(record.data, data)
        await store.settle()
        assert [hit.seq for hit in await other.search("ada", "tale")] == [1]

    @pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 65_535, 65_536, 65_537, 1_000_000])
    async def test_sizes_around_the_limits_of_columns_come_back(self, store: Store, size: int) -> None:
        """L7"""
        key = await a_conversation(store)
        data = b'"' + b"x" * size + b'"'

        await store.commit(key, [Append("message", data, text="x" * size), put("a", data[1:-1])])

        [event] = await store.events(key)
        [record] = await store.records(key, "notes")
        assert _equal(event.data, data)
        assert _equal(record.data, data[1:-1])

    async def test_a_commit_that_is_too_large_is_refused_and_changes_nothing(self, store: Store) -> None:
        key = await a_rich_conversation(store)
        before = await seen(store, "ada")
        half = b"1" * (store.limits.max_commit // 2)

        with pytest.raises(TooLarge) as caught:
            await store.commit(key, [noted(1), put("a", half), put("b", half), Append("large", b"11")])

        assert caught.value.limit == store.limits.max_commit < caught.value.size
        assert await seen(store, "ada") == before

    async def test_a_commit_of_the_largest_size_is_taken(self, store: Store) -> None:
        key = await a_conversation(store)

        await store.commit(key, [put("a", b"1" * store.limits.max_commit)])

        [record] = await store.records(key, "notes")
        assert len(record.data) == store.limits.max_commit

    async def test_a_thousand_operations_are_one_commit(self, store: Store) -> None:
        key = await a_conversation(store)

        commit = await store.commit(
            key,
            [
                op
                for n in range(1_000)
                for op in (said(f"text {n}"), OpenCall(f"call {n}", "tool"), put(f"{n:04}"))
            ],
        )

        assert commit.seqs == tuple(range(1, 1_001))
        assert len(commit.revisions) == 1_000
        assert [call.call_id for call in await store.calls(key)] == [f"call {n}" for n in range(1_000)]

    @pytest.mark.parametrize(
        "data",
        [b"", b'"\0"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc3', "text", None, bytearray(b"1")],
        ids=repr,
    )
    def test_data_that_is_no_json_text_is_refused(self, data: bytes) -> None:
        """L6: a raw NUL, a lone surrogate and bytes that are not UTF-8."""
        with pytest.raises(InvalidOp):
            Append("message", data)
        if data is not None:
            with pytest.raises(InvalidOp):
                SetHeader(metadata=data)

    @pytest.mark.parametrize(
        "data", ["text", None, bytearray(b"1"), memoryview(b"1")], ids=lambda data: type(data).__name__
    )
    def test_a_record_is_bytes(self, data: bytes) -> None:
        with pytest.raises(InvalidOp):
            PutRecord("notes", "a", data)
        with pytest.raises(InvalidOp):
            OpenCall("call_1", "tool", data=data)

    async def test_what_a_store_gave_out_can_not_change_it(self, store: Store) -> None:
        """L18"""
        key = await a_rich_conversation(store)
        await store.commit(key, [Redact(1)])
        before = await seen(store, "ada")
        loaded = await store.load(key, records=[("notes", "one")])
        lists: list[list[Any]] = [
            await store.events(key),
            await store.calls(key),
            await store.records(key, "notes"),
            await store.headers("ada"),
            await store.open_calls("ada"),
            await store.find("ada", "topic", "travel"),
            await store.search("ada", "hello"),
            await store.owners(),
            loaded.events,
            loaded.calls,
        ]

        for given in lists:
            assert given
            given.reverse()
            given.clear()
            given.append("something else")
        loaded.records.clear()

        assert await seen(store, "ada") == before
        assert len((await store.load(key, records=[("notes", "one")])).records) == 1
        structs: list[Any] = [
            before.by_activity[0],
            before.events[0][0],
            before.calls[0][0],
            before.records[0][0],
        ]
        for struct in structs:
            with pytest.raises(AttributeError):
                struct.key = "changed"

    async def test_what_a_store_was_given_can_change_afterwards(self, store: Store) -> None:
        """L18"""
        key = await a_conversation(store)
        ops: list[Op] = [said("hello"), put("a")]

        await store.commit(key, ops, token="t-1")
        ops.clear()
        await store.commit(key, [said("hello"), put("a")], token="t-1")

        assert len(await store.events(key)) == 1

    async def test_the_bytes_kept_for_an_event_do_not_grow_with_the_log(
        self, store: Store, kit: StoreKit
    ) -> None:
        """L9: whole-state snapshots on every step grow with N²."""
        if kit.scan is None:
            pytest.skip("the kit can't see the bytes")
        key = await a_conversation(store)
        sizes = [len(kit.scan())]

        for _ in range(4):
            for number in range(100):
                await store.commit(key, [said(f"{number} " + "x" * 500), put("state", b"%d" % number)])
            sizes.append(len(kit.scan()))

        first, *_, last = (after - before for before, after in itertools.pairwise(sizes))
        assert last < 3 * first + 1_000_000
