"""Tags: finding conversations, and things in them, within an owner."""

from __future__ import annotations

import pytest

from holdfast.errors import NotFound
from holdfast.model.records import Found, Inventory
from holdfast.store import DropRecords, Op, PutRecord, Store, Tag, Untag
from holdfast.testing.build import a_conversation, a_key, put
from holdfast.testing.conformance.topic import Topic


async def _refs(store: Store, name: str = "topic", value: str = "travel") -> list[str]:
    return [found.ref for found in await store.find("ada", name, value)]


class TagRules(Topic):
    async def test_a_tag_finds_the_conversation_and_what_it_points_to(self, store: Store) -> None:
        key = await a_conversation(store)

        await store.commit(key, [Tag("topic", "travel"), Tag("message", "m-1", ref="17")])

        assert await store.find("ada", "topic", "travel") == [Found(key, "")]
        assert await store.find("ada", "message", "m-1") == [Found(key, "17")]

    async def test_found_tags_come_by_conversation_and_ref(self, store: Store) -> None:
        for id in ("b", "Z", "é", "a"):
            await a_conversation(store, id, ops=[Tag("topic", "travel", ref) for ref in ("y", "", "x")])

        found = await store.find("ada", "topic", "travel")

        assert [(f.key.id, f.ref) for f in found] == [
            (id, ref) for id in ("Z", "a", "b", "é") for ref in ("", "x", "y")
        ]
        assert await store.find("ada", "topic", "travel", limit=4) == found[:4]

    async def test_an_inventory_names_the_collections_and_tags(self, store: Store, other: Store) -> None:
        key = await a_conversation(store, "full", ops=[put("a"), put("b")])
        empty = await a_conversation(store, "empty")
        names = ["b", "B", "a", "a/1", "a\x01", "é", "\U0001f600", "'; DROP TABLE records; --"]
        await store.commit(
            key,
            [PutRecord(name, key, b"1") for name in names for key in ("x", "y")]
            + [Tag(name, value, ref) for name in names[:3] for value in names for ref in ("", "r")],
        )
        await store.commit(key, [DropRecords("a", prefix=""), Untag("B", "a")])

        found = await other.inventory(key)

        assert found.collections == sorted({"notes", *names} - {"a"})
        expected = [(name, value, ref) for name in names[:3] for value in names for ref in ("", "r")]
        assert found.tags == sorted(tag for tag in expected if tag[:2] != ("B", "a"))
        assert await other.inventory(empty) == Inventory([], [])
        with pytest.raises(NotFound):
            await other.inventory(a_key("missing"))

    async def test_the_same_tag_twice_is_one(self, store: Store) -> None:
        key = await a_conversation(store, ops=[Tag("topic", "travel"), Tag("topic", "travel")])

        await store.commit(key, [Tag("topic", "travel")])

        assert await _refs(store) == [""]

    async def test_untag_with_a_ref_removes_that_one(self, store: Store) -> None:
        key = await a_conversation(store, ops=[Tag("topic", "travel", ref) for ref in ("", "x", "y")])

        await store.commit(key, [Untag("topic", "travel", ref="x"), Untag("topic", "travel", ref="missing")])
        assert await _refs(store) == ["", "y"]
        await store.commit(key, [Untag("topic", "travel", ref="")])

        assert await _refs(store) == ["y"]

    async def test_untag_without_a_ref_removes_all_of_this_conversation(self, store: Store) -> None:
        key = await a_conversation(
            store,
            ops=[
                Tag("topic", "travel", "x"),
                Tag("topic", "travel"),
                Tag("topic", "food"),
                Tag("t", "travel"),
            ],
        )
        await a_conversation(store, "c-2", ops=[Tag("topic", "travel", "other")])

        await store.commit(key, [Untag("topic", "travel")])

        assert await _refs(store) == ["other"]
        assert await _refs(store, "topic", "food") == [""]
        assert await _refs(store, "t", "travel") == [""]

    @pytest.mark.parametrize(
        ("ops", "left"),
        [
            ([Tag("topic", "travel", "new"), Untag("topic", "travel")], []),
            ([Untag("topic", "travel"), Tag("topic", "travel", "new")], ["new"]),
            ([Tag("topic", "travel", "new"), Untag("topic", "travel", "old")], ["new"]),
            ([Tag("topic", "travel", "new"), Untag("topic", "travel", "new")], ["old"]),
            ([Untag("topic", "travel", "old"), Tag("topic", "travel", "old")], ["old"]),
            ([Untag("topic", "travel"), Tag("topic", "travel", "old"), Untag("topic", "travel")], []),
        ],
    )
    async def test_tags_of_one_commit_are_changed_in_order(
        self, store: Store, ops: list[Op], left: list[str]
    ) -> None:
        key = await a_conversation(store, ops=[Tag("topic", "travel", "old")])

        await store.commit(key, ops)

        assert await _refs(store) == left

    async def test_names_values_and_refs_never_run_together(self, store: Store) -> None:
        """L14: separators in names."""
        tags = [
            ("a", "b/c", "d"),
            ("a/b", "c", "d"),
            ("a", "b", "c/d"),
            ("a:b", "c", ""),
            ("a", "b:c", ""),
            ("A", "b:c", ""),
            ("a", "%", ""),
            ("a", "_", ""),
            ("é", "v", ""),
            ("e\u0301", "v", ""),
        ]
        await a_conversation(store, ops=[Tag(*tag) for tag in tags])

        for name, value, ref in tags:
            assert await store.find("ada", name, value) == [Found(a_key(), ref)]

    async def test_a_tag_of_another_owner_is_not_found(self, store: Store) -> None:
        await a_conversation(store, owner="ada", ops=[Tag("topic", "travel", "mine")])
        await a_conversation(store, owner="eve", ops=[Tag("topic", "travel", "hers")])

        assert await _refs(store) == ["mine"]
        assert await store.find("nobody", "topic", "travel") == []

    async def test_another_instance_finds_a_tag_at_once(self, store: Store, other: Store) -> None:
        await a_conversation(store, ops=[Tag("topic", "travel")])

        assert await _refs(other) == [""]
