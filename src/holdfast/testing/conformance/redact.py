"""Redaction: a tombstone with a proof, and nothing else of what it was."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from holdfast.errors import NoSuchEvent
from holdfast.store import Append, Op, Redact, Store
from holdfast.testing.build import a_conversation, noted, said, seen
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic
from holdfast.testing.conformance.whole import SECRET, traces
from holdfast.testing.kit import StoreKit


class RedactRules(Topic):
    async def test_a_redacted_event_is_a_tombstone_in_its_place(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store, says=["one"], ops=[said("a secret", id="d-2"), said("three")])
        first, second, third = await store.events(key)
        clock.advance(seconds=10)

        commit = await store.commit(key, [Redact(2)])

        events = await other.events(key)
        assert (events[0], events[2]) == (first, third)
        tomb = events[1]
        assert (tomb.seq, tomb.type, tomb.at, tomb.id) == (2, "redacted", second.at, "d-2")
        assert json.loads(tomb.data)["type"] == "message"
        assert (commit.seqs, commit.last_seq) == ((), 3)

    async def test_who_knows_the_event_can_prove_that_it_was_this_one(self, store: Store) -> None:
        key = await a_conversation(store, says=["a secret", "a secret"])
        known = (await store.events(key))[0].data

        await store.commit(key, [Redact(1), Redact(2)])

        tombs = [json.loads(event.data) for event in await store.events(key)]
        for tomb in tombs:
            assert sha256(bytes.fromhex(tomb["salt"]) + known).hexdigest() == tomb["hash"]
        assert tombs[0]["salt"] != tombs[1]["salt"]
        assert tombs[0]["hash"] != tombs[1]["hash"]

    async def test_a_redacted_event_is_not_found_by_its_text(self, store: Store, other: Store) -> None:
        key = await a_conversation(store, says=["a secret", "another secret"])

        await store.commit(key, [Redact(1)])

        for reader in (store, other):
            await reader.settle()
            assert [hit.seq for hit in await reader.search("ada", "secret")] == [2]

    async def test_redacting_twice_is_redacting_once(self, store: Store) -> None:
        key = await a_conversation(store, says=["a secret"])
        await store.commit(key, [Redact(1)])
        before = await store.events(key)

        await store.commit(key, [Redact(1), Redact(1)])

        assert await store.events(key) == before

    @pytest.mark.parametrize(
        "ops",
        [
            [Redact(3)],
            [Redact(2**40)],
            [Redact(1), Redact(3)],
            [said("three"), Redact(3)],
            [Redact(3), said("three")],
        ],
    )
    async def test_only_an_event_that_was_in_the_log_is_redacted(self, store: Store, ops: list[Op]) -> None:
        key = await a_conversation(store, says=["one", "two"])
        before = await seen(store, "ada")

        with pytest.raises(NoSuchEvent) as caught:
            await store.commit(key, ops)

        assert (caught.value.key, caught.value.seq) == (key, 2**40 if Redact(2**40) in ops else 3)
        assert await seen(store, "ada") == before

    async def test_the_id_of_a_redacted_event_is_still_known(self, store: Store) -> None:
        """L4: the same delivery again brings nothing back."""
        key = await a_conversation(store, ops=[said("a secret", id="d-1")])
        await store.commit(key, [Redact(1)])

        commit = await store.commit(key, [said("a secret", id="d-1")])

        await store.settle()
        assert commit.seqs == (1,)
        assert [event.type for event in await store.events(key)] == ["redacted"]
        assert await store.search("ada", "secret") == []

    async def test_a_redaction_goes_with_other_operations(self, store: Store) -> None:
        key = await a_conversation(store, says=["a secret", "two"])

        commit = await store.commit(key, [noted(3), Redact(1), noted(4)])

        assert commit.seqs == (3, 4)
        assert [event.type for event in await store.events(key)] == [
            "redacted",
            "message",
            "notice",
            "notice",
        ]

    async def test_load_gives_the_tombstone(self, store: Store) -> None:
        key = await a_conversation(store, says=["a secret"])

        await store.commit(key, [Redact(1)])

        assert (await store.load(key)).events == await store.events(key)

    async def test_no_byte_of_a_redacted_event_is_left_after_a_scrub(
        self, store: Store, kit: StoreKit
    ) -> None:
        data = b'{"text": "%s and a long enough text to be kept in one place only"}' % SECRET.encode()
        text = f"{SECRET} and a long enough text to be kept in one place only"
        key = await a_conversation(
            store,
            ops=[Append("message", data, text=text), Append("message", data * 1_000, text=text), noted(3)],
        )
        assert traces(kit, store, SECRET) != 0

        await store.commit(key, [Redact(1), Redact(2)], token="t-1")
        await store.scrub()

        assert traces(kit, store, SECRET) in (0, None)
        assert [event.type for event in await store.events(key)] == ["redacted", "redacted", "notice"]
