"""Connecting: a URL leads to its store, or to an error that says what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, InvalidInput, StoreClosed, UnknownStore, WeakerThanAsked
from holdfast.store import connect
from holdfast.store.memory import MemoryStore
from holdfast.testing import FakeClock
from holdfast.testing.build import a_conversation, a_key

pytestmark = pytest.mark.anyio

THIRD_PARTY = """
from holdfast.store.memory import MemoryStore


class RiverStore(MemoryStore):
    def __init__(self, url, *, clock=None):
        super().__init__("memory://", clock=clock)
        self.river = url
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution of somebody else that brings a store, as pip would lay it out."""
    (tmp_path / "river_store.py").write_text(THIRD_PARTY)
    info = tmp_path / "river_store-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: river-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[holdfast.stores]\nriver = river_store:RiverStore\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "river_store", raising=False)


async def test_a_memory_store_of_its_own_is_shared_with_nobody() -> None:
    async with connect("memory://") as first, connect("memory://") as second:
        await a_conversation(first)

        assert await second.headers("ada") == []


async def test_a_memory_store_with_a_name_is_one_in_the_whole_process() -> None:
    async with connect("memory://shared-by-two") as first, connect("memory://shared-by-two") as second:
        await a_conversation(first, "by-two")

        assert (await second.header(a_key("by-two"))).key == a_key("by-two")
        await first.delete(a_key("by-two"))


async def test_a_connected_store_is_not_open_yet() -> None:
    store = connect("memory://")

    assert isinstance(store, MemoryStore)
    with pytest.raises(StoreClosed, match="memory://"):
        await store.owners()


async def test_a_store_gets_the_clock_it_is_given() -> None:
    clock = FakeClock(at=42)

    async with connect("memory://", clock=clock) as store:
        key = await a_conversation(store)

        assert (await store.header(key)).created_at == 42


@pytest.mark.parametrize(
    "url", ["mongo://localhost", "postgresql+odd://x", "no scheme", "", "/a/path.db", None, 5]
)
def test_a_url_that_no_store_knows_is_refused_with_those_that_are_known(url: Any) -> None:
    with pytest.raises(UnknownStore, match=r"memory://.*sqlite://") as caught:
        connect(url)

    assert isinstance(caught.value, HoldfastError)
    assert isinstance(caught.value, ValueError)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(UnknownStore) as caught:
        connect("mongo://ada:s3cret@localhost/db")

    assert "s3cret" not in str(caught.value)
    assert "ada:***@localhost" in str(caught.value)


@pytest.mark.parametrize("url", ["memory://?speed=high", "memory://name?durability=memory&typo=1"])
def test_an_unknown_parameter_is_refused_by_name(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"unknown parameter '(speed|typo)'.*durability"):
        connect(url)


@pytest.mark.parametrize("durability", ["os", "disk", "replicated"])
def test_a_memory_store_does_not_promise_more_than_it_keeps(durability: str) -> None:
    with pytest.raises(WeakerThanAsked, match="dies with its process"):
        connect(f"memory://?durability={durability}")


def test_a_memory_store_may_be_asked_for_what_it_is() -> None:
    assert connect("memory://?durability=memory").limits.durability == "memory"


@pytest.mark.usefixtures("installed")
async def test_a_store_of_another_package_is_found_by_its_entry_point() -> None:
    clock = FakeClock(at=42)

    store = connect("river://delta/1", clock=clock)

    assert (type(store).__name__, vars(store)["river"]) == ("RiverStore", "river://delta/1")
    async with store:
        key = await a_conversation(store)
        assert (await store.header(key)).created_at == 42


@pytest.mark.usefixtures("installed")
def test_a_store_of_another_package_is_named_among_the_known() -> None:
    with pytest.raises(UnknownStore, match="river://"):
        connect("mongo://localhost")
