"""The header: what is known of a conversation without its log, and the numbers that guard it."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidOp, StaleHeader
from holdfast.store import (
    DropRecords,
    Op,
    OpenCall,
    PutRecord,
    Redact,
    SetHeader,
    Store,
    Tag,
    Untag,
    Wake,
)
from holdfast.testing.build import a_conversation, a_key, noted, pending, put, said
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic

FIELDS = SetHeader(
    title="a trip",
    status="running",
    agent="guide",
    metadata=b'{"b": 1, "a": 2}',
    settings=b'{"model": "x"}',
    tail=3,
    takeovers=2,
)


class HeaderRules(Topic):
    async def test_a_new_header_says_what_nobody_set(self, store: Store, clock: FakeClock) -> None:
        await store.commit(a_key(), [], create=SetHeader())

        header = await store.header(a_key())
        assert (header.key, header.last_seq) == (a_key(), 0)
        assert (header.created_at, header.activity) == (clock(), clock())
        assert (header.title, header.status, header.agent) == ("", "idle", "")
        assert (header.metadata, header.settings) == (b"{}", b"{}")
        assert (header.tail, header.takeovers) == (1, 0)
        assert (header.wake_at, header.lease) == (None, None)
        assert (header.forked_from, header.forked_at) == (None, 0)

    async def test_a_conversation_can_be_written_as_of_another_time(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        """For copies and imports: everything happened then."""
        start = clock()
        clock.advance(seconds=100)

        await store.commit(a_key(), [], create=SetHeader(), at=start + 1)
        await store.commit(a_key(), [pending("call")], at=start + 2)
        for number, given in enumerate((start + 3, start + 3, start + 9), 1):
            commit = await store.commit(a_key(), [noted(number), put(f"{number}")], at=given)
            assert commit.at == given
        await store.commit(a_key(), [SetHeader(title="kept")], at=start + 50)
        await store.settle()

        [header] = await other.headers("ada")
        assert header == await store.header(a_key())
        assert (header.created_at, header.activity) == (start + 1, start + 9)
        assert [event.at for event in await other.events(a_key())] == [start + 3, start + 3, start + 9]
        assert [call.opened_at for call in await other.calls(a_key())] == [start + 2]

    async def test_another_time_is_neither_in_the_future_nor_before_what_there_is(
        self, store: Store, clock: FakeClock
    ) -> None:
        """L1"""
        now = clock()
        key = await a_conversation(store, says=["hello"])

        for given in (now - 5, 0, now + 10**12):
            commit = await store.commit(key, [noted(1)], at=given)
            assert commit.at == now
        clock.advance(seconds=1)
        assert (await store.commit(key, [noted(2)], at=now + 10)).at == now + 10

        assert [event.at for event in await store.events(key)] == [now] * 4 + [now + 10]
        assert (await store.header(key)).activity == now + 10
        for bad in (-1, 2**63, 1.5, "now"):
            with pytest.raises(InvalidOp):
                await store.commit(key, [noted(1)], at=bad)  # type: ignore[arg-type]

    async def test_another_time_does_not_move_an_expiry_or_work(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store)
        clock.advance(seconds=100)

        await store.commit(
            key,
            [OpenCall("call", "tool", "interrupted", expires_in=10), Wake(after=5)],
            at=clock() - 60 * 10**6,
        )

        [call] = await store.calls(key)
        assert call.expires_at == clock() + 10 * 10**6
        assert (await store.header(key)).wake_at == clock() + 5 * 10**6

    @pytest.mark.parametrize("create", [True, False])
    async def test_every_field_that_is_given_is_set(self, store: Store, create: bool) -> None:
        if create:
            await store.commit(a_key(), [], create=FIELDS)
        else:
            await store.commit(await a_conversation(store), [FIELDS])

        header = await store.header(a_key())
        assert (header.title, header.status, header.agent) == ("a trip", "running", "guide")
        assert (header.metadata, header.settings) == (b'{"b": 1, "a": 2}', b'{"model": "x"}')
        assert (header.tail, header.takeovers) == (3, 2)

    @pytest.mark.parametrize(
        "change",
        [
            SetHeader(title=""),
            SetHeader(status=""),
            SetHeader(agent=""),
            SetHeader(metadata=b"[ ]"),
            SetHeader(settings=b"null"),
            SetHeader(tail=1),
            SetHeader(takeovers=0),
        ],
    )
    async def test_a_field_that_is_not_given_stays(self, store: Store, change: SetHeader) -> None:
        await store.commit(a_key(), [], create=FIELDS)

        await store.commit(a_key(), [change])

        header = await store.header(a_key())
        for field in ("title", "status", "agent", "metadata", "settings", "tail", "takeovers"):
            given = getattr(change, field)
            assert getattr(header, field) == (getattr(FIELDS, field) if given is None else given), field

    async def test_two_changes_in_one_commit_are_one(self, store: Store) -> None:
        key = await a_conversation(store, title="old")
        version = (await store.header(key)).version

        await store.commit(
            key, [SetHeader(title="lost", agent="guide"), noted(1), SetHeader(title="new", when=version)]
        )

        header = await store.header(key)
        assert (header.title, header.agent) == ("new", "guide")

    async def test_two_changes_that_ask_for_different_versions_are_refused(self, store: Store) -> None:
        key = await a_conversation(store, title="old")
        version = (await store.header(key)).version

        with pytest.raises(InvalidOp):
            await store.commit(
                key, [SetHeader(title="a", when=version), SetHeader(title="b", when=version + 1)]
            )

        assert (await store.header(key)).title == "old"

    async def test_a_change_with_when_needs_exactly_that_version(self, store: Store) -> None:
        key = await a_conversation(store, title="first")
        old = (await store.header(key)).version
        await store.commit(key, [SetHeader(title="second")])
        now = (await store.header(key)).version

        for wrong in (old, 0, now + 1):
            with pytest.raises(StaleHeader) as caught:
                await store.commit(key, [SetHeader(title="third", when=wrong)])
            assert (caught.value.key, caught.value.expected, caught.value.actual) == (key, wrong, now)
        await store.commit(key, [SetHeader(title="fourth", when=now)])

        header = await store.header(key)
        assert header.title == "fourth"
        assert header.version not in (old, now)

    @pytest.mark.parametrize(
        "op",
        [
            said("hello"),
            pending("call_1"),
            put("a"),
            DropRecords("notes", "a"),
            Tag("a", "b"),
            Untag("a", "b"),
            Wake(),
        ],
    )
    async def test_only_a_change_of_the_header_gives_it_a_new_version(self, store: Store, op: Op) -> None:
        """A change of title does not conflict with a new message."""
        key = await a_conversation(store)
        before = await store.header(key)

        await store.commit(key, [op])

        after = await store.header(key)
        assert after.version == before.version
        assert after.revision != before.revision
        await store.commit(key, [SetHeader(title="new", when=before.version)])

    async def test_every_commit_gives_a_revision_that_never_was(self, store: Store) -> None:
        """L2"""
        revisions, versions = [], []

        for _ in range(2):
            key = await a_conversation(store)
            for ops in ([], [noted(1)], [SetHeader()], [SetHeader(title="x")], [put("a")], [Redact(1)]):
                await store.commit(key, ops)
                header = await store.header(key)
                revisions.append(header.revision)
                versions.append(header.version)
            await store.delete(key)

        assert len(set(revisions)) == 12
        assert len(set(versions)) == 6

    async def test_a_version_does_not_match_after_a_new_start(self, store: Store) -> None:
        """L2"""
        key = await a_conversation(store)
        old = (await store.header(key)).version
        await store.delete(key)
        await a_conversation(store, title="new")

        with pytest.raises(StaleHeader):
            await store.commit(key, [SetHeader(title="late", when=old)])

        assert (await store.header(key)).title == "new"

    @pytest.mark.parametrize("op", [said("hello"), put("a"), put("there")])
    async def test_activity_moves_with_every_event_and_record(
        self, store: Store, clock: FakeClock, op: Op
    ) -> None:
        """L11: otherwise sorting and retention hit active conversations."""
        key = await a_conversation(store, ops=[put("there")])
        created = clock()
        clock.advance(seconds=10)

        await store.commit(key, [op])

        header = await store.header(key)
        assert (header.created_at, header.activity) == (created, clock())

    @pytest.mark.parametrize(
        "op",
        [
            SetHeader(title="new"),
            OpenCall("call_1", "tool"),
            DropRecords("notes", "a"),
            Tag("a", "b"),
            Wake(),
            Redact(1),
            said("hello", id="known"),
        ],
    )
    async def test_activity_stays_when_neither_event_nor_record_is_written(
        self, store: Store, clock: FakeClock, op: Op
    ) -> None:
        key = await a_conversation(store, ops=[put("a"), said("hello", id="known")])
        before = await store.header(key)
        clock.advance(seconds=10)

        await store.commit(key, [op])

        assert (await store.header(key)).activity == before.activity

    async def test_activity_never_goes_back(self, store: Store, clock: FakeClock) -> None:
        """L1"""
        key = await a_conversation(store)
        created = clock()

        for step in (10, -100, 50, 45, -1_000_000):
            before = await store.header(key)
            clock.advance(seconds=step)
            commit = await store.commit(key, [noted(1), PutRecord("notes", "a", b"")])

            header = await store.header(key)
            assert header.activity == max(before.activity, clock()) == commit.at
            assert header.created_at == created

    async def test_a_title_is_any_text(self, store: Store) -> None:
        key = await a_conversation(store)

        for title in (
            "",
            " ",
            "ünïcödé 😀",
            "'; DROP TABLE x; --",
            "a\nb\tc\x01",
            "x" * 100_000,
            "\uffff\U0010ffff",
        ):
            await store.commit(key, [SetHeader(title=title)])
            assert (await store.header(key)).title == title

    @pytest.mark.parametrize("title", ["a\0b", "\ud800", 5])
    def test_a_title_that_no_store_could_keep_is_refused(self, title: str) -> None:
        with pytest.raises(InvalidOp):
            SetHeader(title=title)
