"""What must never reach a store, and names that try to break out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conversations.taps import turns

from holdfast.audit import AuditPolicy
from holdfast.errors import InvalidKey
from holdfast.hub import Hub
from holdfast.model import Message, ModelCall, Text, ToolCall
from holdfast.persistence import HookContext, PersistContext, ToolInfo
from holdfast.store import connect
from holdfast.testing import FakeClock, StoreKit
from holdfast.testing.conformance.owners import HOSTILE, ILLEGAL
from holdfast.views import AgentState

pytestmark = pytest.mark.anyio

SECRET = "sk-live-5ec4e7"


class Scope:
    """Somebody who is logged in, with all that an application keeps there."""

    def __init__(self) -> None:
        self.user = type("User", (), {"id": "ada", "email": f"{SECRET}@example.org"})()
        self.api_key = SECRET
        self.refresh: Callable[[], str] = lambda: SECRET

    def __repr__(self) -> str:
        return f"Scope({SECRET})"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise AssertionError("somebody pickles a scope")


async def test_scopes_secrets_and_functions_never_reach_the_bytes_of_a_store(tmp_path: Path) -> None:
    """L44"""
    scope = Scope()

    def redact(call: ModelCall) -> ModelCall:
        return ModelCall(call.id, call.model, {"messages": "removed"}, at=call.at)

    store = connect(f"sqlite:///{tmp_path}/a.db")
    async with Hub(store, audit=AuditPolicy(everywhere=True, redact=redact)) as hub:
        conversation = await hub.open(scope, "c-1")
        await conversation.append("the marker word", Message("m1", "assistant", (ToolCall("m1/0", "book"),)))
        wait = await hub.calls.interrupt(scope, "c-1", "m1/0", prompt="Book?")
        await hub.calls.record_decision(scope, "c-1", "m1/0", "approve", step=wait.step)
        await hub.calls.mark_executing(scope, "c-1", "m1/0")
        await hub.display_messages.update_tool_status(
            scope, "completed", ToolInfo("m1/0", result="x"), HookContext("a", "c-1")
        )
        await hub.agent_states.persist_state(
            scope, AgentState("a").to_serialized(), PersistContext("a", "c-1")
        )
        await hub.audit.record(scope, "c-1", ModelCall("1", "big", {"headers": {"key": SECRET}}))
        await hub.conversations.create(scope, "c-2", metadata={"a": 1})
        await hub.conversations.rename(scope, "c-2", "Two")
        await hub.conversations.fork(scope, "c-1", new_id="fork")
        await hub.conversations.rewind(scope, "c-1", 1)
        with contextlib.suppress(Exception):
            await hub.conversations.get(scope, "unknown")

        def scan() -> bytes:
            return b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))

        await store.settle()
        live = scan()
    for raw in (live, scan()):
        assert b"marker word" in raw
        assert SECRET.encode() not in raw
        assert b"Scope" not in raw
        assert b"lambda" not in raw
        assert b"0x7f" not in raw
    assert b'"actor":"ada"' in live


async def test_a_value_that_is_a_function_or_a_scope_is_refused_and_not_written_as_text(hub: Hub) -> None:
    """L44"""
    await hub.conversations.create("ada", "c-1")

    for value in (Scope(), Scope().refresh, SECRET.encode()):
        with pytest.raises(ValueError, match=r"is a|not JSON|must be") as caught:
            await hub.conversations.update_metadata("ada", "c-1", {"a": value})
        assert SECRET not in str(caught.value)
        with pytest.raises(ValueError, match=r"is a|not JSON|must be"):
            await (await hub.open("ada", "c-1")).append(
                Message("m1", "assistant", (ToolCall("m1/0", "book", {"a": value}),))
            )

    assert (await hub.conversations.get("ada", "c-1")).last_seq == 0


async def test_what_a_redaction_takes_out_is_never_stored(
    kit: StoreKit, clock: FakeClock, tmp_path: Path
) -> None:
    def careful(call: ModelCall) -> ModelCall | None:
        if call.model == "secret":
            return None
        if call.model == "broken":
            raise RuntimeError("can't tell")
        return ModelCall(call.id, call.model, {}, at=call.at)

    policy = AuditPolicy(everywhere=True, redact=careful)
    async with Hub(kit.connect(clock=clock), clock=clock, audit=policy) as hub:
        await hub.conversations.create("ada", "c-1")

        assert await hub.audit.record("ada", "c-1", ModelCall("1", "big", {"a": SECRET}))
        assert not await hub.audit.record("ada", "c-1", ModelCall("2", "secret", {"a": SECRET}))
        with pytest.raises(RuntimeError, match="can't tell"):
            await hub.audit.record("ada", "c-1", ModelCall("3", "broken", {"a": SECRET}))

        assert [(call.id, call.request) for call in await hub.audit.list("ada", "c-1")] == [("1", {})]


async def test_hostile_ids_and_owners_are_apart(hub: Hub) -> None:
    """L14: SQL, paths, look-alikes, a kilobyte."""
    for number, name in enumerate(HOSTILE):
        await (await hub.open("ada", name)).append(f"id {number}")
        await (await hub.open(name, "c-1")).append(f"owner {number}")

    for number, name in enumerate(HOSTILE):
        [mine] = turns(await hub.open("ada", name))
        [theirs] = turns(await hub.open(name, "c-1"))
        assert (mine.text, theirs.text) == (f"id {number}", f"owner {number}")
        assert [c.id for c in (await hub.conversations.list(name)).conversations] == ["c-1"]

    found, cursor = [], None
    while True:
        listing = await hub.conversations.list("ada", before=cursor, limit=7)
        found += [c.id for c in listing.conversations]
        if (cursor := listing.older) is None:
            break
    assert sorted(found) == sorted(HOSTILE)


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    inside = tmp_path / "deep"
    inside.mkdir()
    return inside


def everything_in(path: Path) -> list[str]:
    return [inner.name for inner in path.iterdir()]


async def test_ids_that_are_paths_stay_inside_the_store(tmp_path: Path, deep: Path) -> None:
    """L14: path traversal on the store that is made of files."""
    inside = deep / "store"
    async with Hub(connect(f"file://{inside}?durability=os")) as hub:
        for number, name in enumerate(
            ["../../up", "..", "/etc/passwd", "a/../../b", "C:\\con", "%2e%2e%2fup"]
        ):
            await (await hub.open(name, name)).append(f"message {number}")
            assert [turn.text for turn in turns(await hub.open(name, name))] == [f"message {number}"]

    assert everything_in(tmp_path) == ["deep"]
    assert everything_in(deep) == ["store"]


@pytest.mark.parametrize("id", [name for name in ILLEGAL if name is not None], ids=repr)
async def test_what_cannot_be_an_id_is_refused_and_changes_nothing(hub: Hub, id: Any) -> None:
    """L14"""
    await hub.conversations.create("ada", "c-1")

    with pytest.raises(InvalidKey):
        await hub.open("ada", id)
    with pytest.raises(InvalidKey):
        await hub.conversations.create("ada", id)
    with pytest.raises(InvalidKey):
        await hub.conversations.fork("ada", "c-1", new_id=id)
    with pytest.raises(InvalidKey):
        await hub.calls.complete("ada", "c-1", id)

    assert [c.id for c in (await hub.conversations.list("ada")).conversations] == ["c-1"]


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 5_000, "é" * 600], ids=ascii)
async def test_a_tool_that_a_model_made_up_does_not_stop_its_reply(hub: Hub, name: str) -> None:
    conversation = await hub.open("ada", "c-1")

    await conversation.append(Message("m1", "assistant", (Text("Hi"), ToolCall("m1/1", name))))

    [call] = await hub.calls.list("ada", "c-1")
    assert call.status == "pending"
    assert turns(conversation)[0].calls[0].name == name
