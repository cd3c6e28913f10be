"""The hub without await: the same calls, from any thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import holdfast.sync
from holdfast.errors import AlreadyExists, NotFound, StoreClosed, UnknownStore
from holdfast.sync import Waiting


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


def test_a_conversation_goes_on_in_the_next_block(url: str) -> None:
    """K5"""
    with holdfast.sync.connect(url) as hub:
        conversation = hub.open("user-1", "trip")
        conversation.append("Flights?")
        conversation.append({"role": "assistant", "content": "HF101."}, format="openai")

    with holdfast.sync.connect(url) as hub:
        conversation = hub.open("user-1", "trip")
        assert conversation.transcript(format="openai") == [
            {"role": "user", "content": "Flights?"},
            {"role": "assistant", "content": "HF101."},
        ]
        assert [info.id for info in hub.conversations.list("user-1").conversations] == ["trip"]
        assert conversation.seq == 2


def test_errors_are_the_same_and_leave_the_hub_usable(url: str) -> None:
    with holdfast.sync.connect(url) as hub:
        hub.conversations.create("user-1", "trip")
        with pytest.raises(AlreadyExists):
            hub.conversations.create("user-1", "trip")
        with pytest.raises(NotFound):
            hub.conversations.get("user-2", "trip")
        with pytest.raises(AttributeError):
            hub.conversations.no_such_thing("user-1")

        assert hub.conversations.get("user-1", "trip").id == "trip"


def test_any_thread_may_call(url: str) -> None:
    with holdfast.sync.connect(url) as hub, ThreadPoolExecutor(8) as threads:
        hub.conversations.create("user-1", "trip")

        def write(number: int) -> None:
            hub.open("user-1", "trip").append(f"message {number}")

        list(threads.map(write, range(40)))

        assert hub.open("user-1", "trip").seq == 40


def test_after_its_block_a_hub_says_that_it_is_closed_and_leaves_no_thread(url: str) -> None:
    before = threading.active_count()
    with holdfast.sync.connect(url) as hub:
        assert isinstance(hub, Waiting)
    with pytest.raises(StoreClosed):
        hub.open("user-1", "trip")
    with pytest.raises(UnknownStore), holdfast.sync.connect("nosql://x"):
        pass

    assert threading.active_count() == before


def test_an_error_inside_the_block_closes_the_store(url: str) -> None:
    def fail() -> None:
        with holdfast.sync.connect(url) as hub:
            hub.open("user-1", "trip").append("kept")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with holdfast.sync.connect(url) as hub:
        assert hub.open("user-1", "trip").seq == 1
