"""Tokens: a commit whose answer was lost is repeated, and done once."""

from __future__ import annotations

import pytest

from holdfast.errors import HoldfastError, NotFound, SeqConflict, StaleCall, TokenConflict
from holdfast.store import (
    Append,
    DropRecords,
    MoveCall,
    Op,
    PutRecord,
    Redact,
    Rest,
    SetHeader,
    Store,
    Tag,
    Untag,
    Wake,
)
from holdfast.testing.build import (
    a_conversation,
    a_key,
    a_rich_conversation,
    answered,
    interrupted,
    noted,
    pending,
    put,
    said,
    seen,
    started,
)
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.leases import taken
from holdfast.testing.conformance.topic import Topic

OPS: dict[str, list[Op]] = {
    "nothing": [],
    "an event": [said("hello")],
    "events with ids": [said("new", id="event-9"), said("known", id="event-3"), said("new", id="event-9")],
    "header": [SetHeader(title="new")],
    "a new call": [pending("new")],
    "a move": [answered("interrupted", by=b"yes")],
    "records": [put("one", b"new"), put("three", b"new"), put("two", b"new", keep=True)],
    "a drop": [DropRecords("notes", prefix="")],
    "tags": [Tag("topic", "new"), Untag("topic", "travel")],
    "a mark": [Wake()],
    "a redaction": [Redact(2)],
    "all at once": [
        said("hello"),
        SetHeader(title="new"),
        pending("new"),
        MoveCall("interrupted", "completed", frozenset(("interrupted", "pending", "executing"))),
        DropRecords("notes", "one"),
        put("three", b"new"),
        Tag("topic", "new"),
        Untag("topic", "travel"),
        Wake(),
        Redact(2),
    ],
}


class TokenRules(Topic):
    @pytest.mark.parametrize("name", OPS)
    async def test_a_repeated_commit_gives_the_first_result_and_changes_nothing(
        self, store: Store, other: Store, clock: FakeClock, name: str
    ) -> None:
        """L5: a write whose outcome the client can't know is retried safely."""
        key = await a_rich_conversation(store)
        clock.advance(seconds=1)
        first = await store.commit(key, OPS[name], token="t-1")
        before = await seen(store, "ada")
        clock.advance(seconds=1)

        again = await store.commit(key, OPS[name], token="t-1")
        elsewhere = await other.commit(key, list(OPS[name]), token="t-1")

        assert first == again == elsewhere
        assert await seen(store, "ada") == before

    async def test_a_repeated_rest_changes_nothing(self, store: Store) -> None:
        """L5"""
        key = await a_conversation(store, ops=[Wake()])
        lease = await taken(store)
        rest: list[Op] = [said("done"), Rest(release=True)]
        first = await store.commit(key, rest, fence=lease.fence, expect=0, token="t-1")
        await store.commit(key, [said("more"), Wake()])

        again = await store.commit(key, rest, fence=lease.fence, expect=0, token="t-1")

        assert again == first
        assert (await store.header(key)).wake_at is not None

    @pytest.mark.parametrize("name", OPS)
    async def test_a_token_with_other_operations_is_refused(self, store: Store, name: str) -> None:
        key = await a_rich_conversation(store)
        await store.commit(key, OPS[name], token="t-1")
        before = await seen(store, "ada")

        for other in OPS.keys() - {name}:
            with pytest.raises(TokenConflict) as caught:
                await store.commit(key, OPS[other], token="t-1")
            assert (caught.value.key, caught.value.token) == (key, "t-1")

        assert await seen(store, "ada") == before

    @pytest.mark.parametrize(
        ("ops", "near"),
        [
            ([Append("a", b"1")], [Append("a", b"1 ")]),
            ([Append("a", b"1")], [Append("a", b"1", id="x")]),
            ([Append("a", b"1")], [Append("a", b"1", text="x")]),
            ([Append("ab", b"1")], [Append("a", b'"b1"')]),
            ([noted(1), noted(2)], [noted(2), noted(1)]),
            ([noted(1)], [noted(1), noted(1)]),
            ([PutRecord("a", "b", b"c")], [PutRecord("a", "b", b"d")]),
            ([PutRecord("ab", "c", b"")], [PutRecord("a", "bc", b"")]),
            ([PutRecord("a", "b", b"")], [PutRecord("a", "b", b"", keep=True)]),
            ([DropRecords("a", "b")], [DropRecords("a", prefix="b")]),
            ([Tag("a", "b")], [Untag("a", "b")]),
            ([Wake(after=1)], [Wake(after=2)]),
            ([SetHeader(title="a")], [SetHeader(status="a")]),
        ],
    )
    async def test_operations_that_are_nearly_the_same_are_others(
        self, store: Store, ops: list[Op], near: list[Op]
    ) -> None:
        key = await a_conversation(store)
        await store.commit(key, ops, token="t-1")

        with pytest.raises(TokenConflict):
            await store.commit(key, near, token="t-1")

    async def test_a_known_token_comes_before_every_other_check(self, store: Store, clock: FakeClock) -> None:
        """L5: after a takeover and more events the retry still gets its answer."""
        key = await a_conversation(store, calls=[pending("call_1")])
        lease = await taken(store, "left", ttl=10)
        ops: list[Op] = [said("hello"), started("call_1"), put("a", when=0), SetHeader(title="new")]
        first = await store.commit(key, ops, token="t-1", fence=lease.fence, expect=0)
        clock.advance(seconds=10)
        await taken(store, "right")
        await store.commit(key, [noted(2)])

        again = await store.commit(key, ops, token="t-1", fence=lease.fence, expect=0)
        without = await store.commit(key, ops, token="t-1")
        created = await store.commit(key, ops, token="t-1", create=SetHeader(when=0))

        assert first == again == without == created
        assert (await store.header(key)).last_seq == 2

    async def test_a_commit_that_creates_is_repeated_safely(self, store: Store) -> None:
        """L5"""
        first = await store.commit(a_key(), [said("hello")], token="t-1", create=SetHeader(title="x", when=0))

        again = await store.commit(a_key(), [said("hello")], token="t-1", create=SetHeader(title="x", when=0))

        assert first == again
        assert len(await store.events(a_key())) == 1

    async def test_a_token_belongs_to_one_conversation(self, store: Store) -> None:
        keys = [a_key("a"), a_key("b"), a_key("a", "eve")]
        for key in keys:
            await a_conversation(store, key.id, key.owner)

        await store.commit(keys[0], [noted(0), noted(1)], token="t-1")
        for key in keys[1:]:
            commit = await store.commit(key, [noted(2)], token="t-1")
            assert commit.seqs == (1,)

        assert [len(await store.events(key)) for key in keys] == [2, 1, 1]

    async def test_a_token_is_gone_with_its_conversation(self, store: Store) -> None:
        key = await a_conversation(store)
        await store.commit(key, [noted(1)], token="t-1")
        await store.delete(key)

        with pytest.raises(NotFound):
            await store.commit(key, [noted(1)], token="t-1")
        commit = await store.commit(key, [noted(1), noted(2)], token="t-1", create=SetHeader())

        assert commit.seqs == (1, 2)

    async def test_a_commit_that_failed_does_not_use_up_its_token(self, store: Store) -> None:
        key = await a_conversation(store, calls=[interrupted("call_1")])
        failing: list[tuple[list[Op], int | None, type[HoldfastError]]] = [
            ([answered("missing")], None, StaleCall),
            ([noted(1)], 7, SeqConflict),
        ]

        for ops, expect, error in failing:
            with pytest.raises(error):
                await store.commit(key, ops, token="t-1", expect=expect)
        commit = await store.commit(key, [noted(2)], token="t-1")

        assert commit.seqs == (1,)
        assert await store.commit(key, [noted(2)], token="t-1") == commit

    async def test_a_token_is_kept_for_as_long_as_the_conversation(
        self, store: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store)
        first = await store.commit(key, [noted(1)], token="t-1")
        for number in range(200):
            await store.commit(key, [noted(number)], token=f"other {number}")
        clock.advance(seconds=10 * 365 * 86_400)

        assert await store.commit(key, [noted(1)], token="t-1") == first

    async def test_tokens_that_look_alike_are_different(self, store: Store) -> None:
        """L14"""
        key = await a_conversation(store)
        tokens = [
            "t",
            "T",
            "t ",
            " t",
            "t\n",
            "é",
            "e\u0301",
            "t/1",
            "t:1",
            "%",
            "_",
            "x" * 1024,
            "x" * 1023 + "y",
        ]

        seqs = [(await store.commit(key, [noted(1)], token=token)).seqs for token in tokens]

        assert seqs == [(n,) for n in range(1, len(tokens) + 1)]

    async def test_a_token_outlives_a_redaction_of_what_it_wrote(self, store: Store) -> None:
        key = await a_conversation(store)
        first = await store.commit(key, [said("a secret")], token="t-1")
        await store.commit(key, [Redact(1)])

        again = await store.commit(key, [said("a secret")], token="t-1")

        assert again == first
        assert [event.type for event in await store.events(key)] == ["redacted"]
