"""Records: bytes under keys, guarded by revisions that never come back."""

from __future__ import annotations

import itertools

import pytest

from holdfast.errors import InvalidOp, NotFound, StaleRecord
from holdfast.store import ABSENT, DropRecords, Op, PutRecord, SetHeader, Store
from holdfast.testing.build import a_conversation, a_key, noted, put
from holdfast.testing.conformance.topic import Topic

_KEYS = [
    "",
    "a",
    "a/1",
    "a/2",
    "a_",
    "a%",
    "ab",
    "b",
    "Z",
    "é",
    "e\u0301",
    "\ufb00",
    "\uffff",
    "\U0001f600",
    "a\U0010ffff",
]
_KEYS = sorted(key for key in _KEYS if key)


async def _names(store: Store, collection: str = "notes") -> list[str]:
    return [record.key for record in await store.records(a_key(), collection)]


class RecordRules(Topic):
    async def test_a_record_comes_back_with_the_revision_of_its_commit(self, store: Store) -> None:
        key = await a_conversation(store)

        commit = await store.commit(key, [put("b", b"1"), noted(1), put("a", b"", collection="media")])

        [note], [medium] = await store.records(key, "notes"), await store.records(key, "media")
        assert (note.collection, note.key, note.data) == ("notes", "b", b"1")
        assert (medium.collection, medium.key, medium.data) == ("media", "a", b"")
        assert commit.revisions == (note.revision, medium.revision)

    async def test_every_write_gives_a_record_a_revision_it_never_had(self, store: Store) -> None:
        """L2"""
        key = await a_conversation(store)
        revisions: list[int] = []
        writes: list[list[Op]] = [[put("a")], [put("a")], [DropRecords("notes", "a"), put("a")], [put("a")]]

        for ops in writes:
            revisions += (await store.commit(key, ops)).revisions

        assert len(set(revisions)) == 4
        assert ABSENT not in revisions
        assert (await store.records(key, "notes"))[0].revision == revisions[-1]

    async def test_revisions_do_not_come_back_after_a_drop_or_a_new_start(self, store: Store) -> None:
        """L2"""
        revisions: list[int] = []

        for _ in range(3):
            key = await a_conversation(store)
            for _ in range(3):
                revisions += (await store.commit(key, [put("a")])).revisions
                await store.commit(key, [DropRecords("notes", prefix="")])
            await store.delete(key)

        assert len(set(revisions)) == 9

    async def test_a_write_with_when_needs_exactly_that_revision(self, store: Store) -> None:
        key = await a_conversation(store)
        [old] = (await store.commit(key, [put("a", b"1")])).revisions
        [now] = (await store.commit(key, [put("a", b"2")])).revisions

        for wrong in (old, ABSENT, now + 1):
            with pytest.raises(StaleRecord) as caught:
                await store.commit(key, [put("a", b"3", when=wrong)])
            assert (caught.value.key, caught.value.collection, caught.value.record_key) == (key, "notes", "a")
        [new] = (await store.commit(key, [put("a", b"4", when=now)])).revisions

        [record] = await store.records(key, "notes")
        assert (record.data, record.revision) == (b"4", new)

    async def test_a_write_with_when_absent_needs_that_there_is_none(self, store: Store) -> None:
        key = await a_conversation(store)

        await store.commit(key, [put("a", b"1", when=ABSENT)])
        with pytest.raises(StaleRecord):
            await store.commit(key, [put("a", b"2", when=ABSENT)])
        await store.commit(key, [DropRecords("notes", "a")])
        await store.commit(key, [put("a", b"3", when=ABSENT)])

        assert [record.data for record in await store.records(key, "notes")] == [b"3"]

    async def test_a_revision_does_not_match_a_record_that_was_dropped_or_made_anew(
        self, store: Store
    ) -> None:
        """L2"""
        key = await a_conversation(store)
        [old] = (await store.commit(key, [put("a")])).revisions

        await store.commit(key, [DropRecords("notes", "a")])
        with pytest.raises(StaleRecord):
            await store.commit(key, [put("a", when=old)])
        await store.commit(key, [put("a")])
        with pytest.raises(StaleRecord):
            await store.commit(key, [put("a", when=old)])
        await store.delete(key)
        await a_conversation(store, ops=[put("a", b"new")])
        with pytest.raises(StaleRecord):
            await store.commit(key, [put("a", when=old)])

        assert [record.data for record in await store.records(key, "notes")] == [b"new"]

    async def test_keep_leaves_a_record_that_is_there(self, store: Store) -> None:
        key = await a_conversation(store, ops=[put("there", b"old")])
        [before] = await store.records(key, "notes")

        commit = await store.commit(key, [put("there", b"new", keep=True), put("absent", b"new", keep=True)])

        absent, there = await store.records(key, "notes")
        assert there == before
        assert absent.data == b"new"
        assert commit.revisions == (there.revision, absent.revision)

    async def test_records_are_dropped_by_key(self, store: Store) -> None:
        key = await a_conversation(store, ops=[put("a"), put("ab"), put("a", collection="media")])

        await store.commit(key, [DropRecords("notes", "a"), DropRecords("notes", "missing")])

        assert await _names(store) == ["ab"]
        assert await _names(store, "media") == ["a"]

    @pytest.mark.parametrize(
        "prefix", ["", "a", "a/", "a_", "a%", "A", "e", "é", "\uffff", "\U0010ffff", "zz"]
    )
    async def test_records_are_dropped_by_prefix_where_every_character_is_itself(
        self, store: Store, prefix: str
    ) -> None:
        """L13: `%` and `_` are text."""
        key = await a_conversation(store, ops=[put(name) for name in _KEYS])
        await store.commit(key, [put("a", collection="media")])

        await store.commit(key, [DropRecords("notes", prefix=prefix)])

        assert await _names(store) == [name for name in _KEYS if not name.startswith(prefix)]
        assert await _names(store, "media") == ["a"]

    async def test_records_are_dropped_before_they_are_put_in_one_commit(self, store: Store) -> None:
        key = await a_conversation(store, ops=[put("a/1", b"old"), put("a/2", b"old"), put("b", b"old")])

        await store.commit(
            key, [DropRecords("notes", prefix="a/"), put("a/2", b"new"), put("a/3", b"new", keep=True)]
        )

        records = await store.records(key, "notes")
        assert [(r.key, r.data) for r in records] == [("a/2", b"new"), ("a/3", b"new"), ("b", b"old")]

    @pytest.mark.parametrize(
        "ops",
        [
            [put("a"), put("a")],
            [put("a"), DropRecords("notes", "a")],
            [put("a"), DropRecords("notes", prefix="")],
            [DropRecords("notes", "a"), put("a", when=ABSENT)],
        ],
    )
    async def test_a_record_is_changed_at_most_once_in_a_commit(self, store: Store, ops: list[Op]) -> None:
        key = await a_conversation(store, ops=[put("a", b"old")])

        with pytest.raises(InvalidOp):
            await store.commit(key, ops)

        assert [record.data for record in await store.records(key, "notes")] == [b"old"]

    async def test_records_come_by_the_code_points_of_their_keys(self, store: Store) -> None:
        key = await a_conversation(store, ops=[put(name) for name in reversed(_KEYS)])

        forth = await store.records(key, "notes")
        back = await store.records(key, "notes", reverse=True)

        assert [record.key for record in forth] == _KEYS
        assert back == forth[::-1]

    async def test_records_are_read_by_prefix_and_range(self, store: Store) -> None:
        key = await a_conversation(store, ops=[put(name) for name in _KEYS])
        edges = (None, "", "a", "a/1", "b", "\ufb00", "\U0010ffff")

        for prefix, after, before, limit, reverse in itertools.product(
            ("", "a", "a/", "a_", "a\U0010ffff", "\U0001f600"), edges, edges, (None, 2), (False, True)
        ):
            records = await store.records(
                key, "notes", prefix=prefix, after=after, before=before, limit=limit, reverse=reverse
            )

            expected = [
                name
                for name in (_KEYS[::-1] if reverse else _KEYS)
                if name.startswith(prefix)
                and (after is None or name > after)
                and (before is None or name < before)
            ][:limit]
            assert [r.key for r in records] == expected, (prefix, after, before, limit, reverse)

    async def test_records_are_read_by_their_keys(self, store: Store) -> None:
        key = await a_conversation(store, ops=[put(name) for name in _KEYS])

        some = await store.records(key, "notes", keys=["b", "missing", "a", "b"])
        last = await store.records(key, "notes", keys=["b", "a", "é"], limit=2, reverse=True)
        many = await store.records(key, "notes", keys=[*_KEYS, *(f"missing {n}" for n in range(2_000))])

        assert [record.key for record in some] == ["a", "b"]
        assert [record.key for record in last] == ["é", "b"]
        assert [record.key for record in many] == _KEYS
        assert await store.records(key, "notes", keys=[]) == []

    async def test_collections_and_conversations_are_apart(self, store: Store) -> None:
        left = await a_conversation(store, "left", ops=[put("a", b"1"), put("a", b"2", collection="media")])
        right = await a_conversation(store, "right", ops=[put("a", b"3")])

        await store.commit(left, [DropRecords("media", prefix="")])

        assert [record.data for record in await store.records(left, "notes")] == [b"1"]
        assert await store.records(left, "media") == []
        assert [record.data for record in await store.records(right, "notes")] == [b"3"]
        assert await store.records(right, "unknown") == []

    async def test_a_collection_and_a_key_never_run_together(self, store: Store) -> None:
        """L14: separators in names."""
        names = [("a", "b/c"), ("a/b", "c"), ("a:b", "c"), ("a", "b:c"), ("ab", "c"), ("a", "bc")]
        key = await a_conversation(store, ops=[PutRecord(*name, f"{name}".encode()) for name in names])

        for collection, record in names:
            [only] = await store.records(key, collection, keys=[record])
            assert only.data == f"{(collection, record)}".encode()

    async def test_many_records_are_written_in_one_commit(self, store: Store) -> None:
        key = await a_conversation(store)

        commit = await store.commit(key, [put(f"{n:05}", b"%d" % n) for n in range(3_000)])

        records = await store.records(key, "notes")
        assert [record.data for record in records] == [b"%d" % n for n in range(3_000)]
        assert commit.revisions == tuple(record.revision for record in records)

    async def test_a_record_needs_its_conversation(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.commit(a_key(), [put("a")])

        await store.commit(a_key(), [put("a")], create=SetHeader())
        assert len(await store.records(a_key(), "notes")) == 1
