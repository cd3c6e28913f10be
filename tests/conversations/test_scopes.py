"""Tenancy is decided in one place, and another tenant's conversation is one that is not there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.conversations.taps import tapped, turns

import holdfast
from holdfast.errors import AlreadyExists, InvalidKey, InvalidScope, NotFound
from holdfast.hub import Hub
from holdfast.model import Erased, Message, ModelCall, Text, ToolCall, ToolResult
from holdfast.persistence import HookContext, PersistContext, SyntheticMessage, ToolInfo
from holdfast.scopes import Scopes
from holdfast.store.memory import MemoryStore
from holdfast.testing import FakeClock
from holdfast.views import AgentState

pytestmark = pytest.mark.anyio

ID = "c-1"
CONTEXT = HookContext("agent", ID)

SAMPLES: dict[str, Callable[[Any, Any], Any]] = {
    "open": lambda f, s: f(s, ID),
    "conversations.archive": lambda f, s: f(s, ID),
    "conversations.create": lambda f, s: f(s, "new"),
    "conversations.delete": lambda f, s: f(s, ID),
    "conversations.erase": lambda f, s: f(s),
    "conversations.fork": lambda f, s: f(s, ID, new_id="c-2"),
    "conversations.get": lambda f, s: f(s, ID),
    "conversations.get_or_none": lambda f, s: f(s, ID),
    "conversations.list": lambda f, s: f(s),
    "conversations.purge": lambda f, s: f(s, older_than=0, dry_run=False),
    "conversations.rename": lambda f, s: f(s, ID, "A trip"),
    "conversations.rewind": lambda f, s: f(s, ID, 1),
    "conversations.rows": lambda f, s: f(s, ID),
    "conversations.search": lambda f, s: f(s, "Lisbon"),
    "conversations.since_summary": lambda f, s: f(s, ID),
    "conversations.state": lambda f, s: f(s, ID),
    "conversations.total_usage": lambda f, s: f(s),
    "conversations.unarchive": lambda f, s: f(s, ID),
    "conversations.update_metadata": lambda f, s: f(s, ID, {"a": 1}),
    "conversations.update_settings": lambda f, s: f(s, ID, {"a": 1}),
    "conversations.usage": lambda f, s: f(s, ID),
    "calls.annotate": lambda f, s: f(s, ID, "m2/0", {"a": 1}),
    "calls.cancel": lambda f, s: f(s, ID, "m2/0"),
    "calls.cancel_expiry": lambda f, s: f(s, ID, "m2/0"),
    "calls.complete": lambda f, s: f(s, ID, "m2/0", "done"),
    "calls.fail": lambda f, s: f(s, ID, "m2/0", "no"),
    "calls.finish": lambda f, s: f(s, ID, ToolResult("m2/0", "ok", (Text("done"),))),
    "calls.get": lambda f, s: f(s, ID, "m2/0"),
    "calls.interrupt": lambda f, s: f(s, ID, "m2/0"),
    "calls.list": lambda f, s: f(s, ID),
    "calls.mark_executing": lambda f, s: f(s, ID, "m2/0"),
    "calls.record_decision": lambda f, s: f(s, ID, "m2/0", "approve", step=1),
    "calls.resolve": lambda f, s: f(s, ID, "m2/0", "done", step=1),
    "calls.schedule_expiry": lambda f, s: f(s, ID, "m2/0", 10),
    "calls.waiting": lambda f, s: f(s),
    "audit.collect": lambda f, s: f(s, older_than=0),
    "audit.enable": lambda f, s: f(s, ID),
    "audit.list": lambda f, s: f(s, ID),
    "audit.record": lambda f, s: f(s, ID, ModelCall("1", "big", {})),
    "agent_states.load_state": lambda f, s: f(s, CONTEXT),
    "agent_states.persist_state": lambda f, s: f(
        s, AgentState("agent").to_serialized(), PersistContext("agent", ID)
    ),
    "display_messages.resolve_tool_result": lambda f, s: f(s, "m2/0", "done", CONTEXT),
    "display_messages.save_message": lambda f, s: f(s, Message("m9", "user", (Text("Hi"),)), CONTEXT),
    "display_messages.save_synthetic_message": lambda f, s: f(
        s, SyntheticMessage("text", {"text": "Hi"}, id="row-1"), CONTEXT
    ),
    "display_messages.update_tool_status": lambda f, s: f(s, "executing", ToolInfo("m2/0"), CONTEXT),
}
"""One call of each function that takes a scope. A new function needs a line here, or the tests fail."""

DOORS = ("conversations", "calls", "audit", "agent_states", "display_messages")


def functions(hub: Hub) -> dict[str, Any]:
    """Every public function of the hub and of what it holds."""
    found = {name: getattr(hub, name) for name in dir(hub) if not name.startswith("_")}
    for door in (name for name in found if name != "store" and not inspect.isroutine(found[name])):
        assert door in DOORS, f"hub.{door} is new: add it to DOORS"
    names = {name: value for name, value in found.items() if inspect.isroutine(value)}
    for door in DOORS:
        held = getattr(hub, door)
        names |= {f"{door}.{n}": getattr(held, n) for n in dir(held) if not n.startswith("_")}
    return names


async def test_each_public_function_takes_the_scope_first_and_has_a_sample() -> None:
    """S12"""
    found = functions(Hub(MemoryStore("memory://x")))

    assert found.keys() == SAMPLES.keys()
    for name, function in found.items():
        assert inspect.iscoroutinefunction(function), name
        assert next(iter(inspect.signature(function).parameters)) == "scope", name


async def outcome(name: str, *, others: bool) -> tuple[Any, list[Any], Any]:
    """What eve gets and what the store is asked, with or without a conversation of ada under that id."""
    clock = FakeClock()
    async with Hub(MemoryStore(f"memory://{uuid4()}", clock=clock), clock=clock) as hub:
        if others:
            conversation = await hub.open("ada", ID)
            asks = Message("m2", "assistant", (Text("Lisbon?"), ToolCall("m2/0", "find")))
            await conversation.append("A flight to Lisbon", asks)
            await hub.calls.interrupt("ada", ID, "m2/0", expires_in=1)
            await hub.audit.enable("ada", ID)
            await hub.audit.record("ada", ID, ModelCall("1", "big", {}))
        before = await everything(hub, "ada")
        asked = tapped(hub.store)
        try:
            answer = await SAMPLES[name](functions(hub)[name], "eve")
            if name == "open":
                answer = (answer.info, answer.seq, turns(answer))
        except Exception as exc:
            answer = (type(exc), str(exc))
        said = list(asked)
        assert await everything(hub, "ada") == before
        return answer, said, before


async def everything(hub: Hub, owner: str) -> Any:
    headers = await hub.store.headers(owner)
    keys = [header.key for header in headers]
    return (
        headers,
        [await hub.store.events(key) for key in keys],
        [await hub.store.calls(key) for key in keys],
        [await hub.store.records(key, name) for key in keys for name in ("audit", "view", "state", "cards")],
    )


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_conversation_of_somebody_else_is_one_that_is_not_there(name: str) -> None:
    """S12: the same answer, the same error and text, the same questions to the store; nothing is changed."""
    theirs = await outcome(name, others=True)
    nobodys = await outcome(name, others=False)

    assert _plain(theirs[0]) == _plain(nobodys[0])
    assert theirs[1] == nobodys[1]


def _plain(answer: Any) -> Any:
    """Numbers that a store gives to a new conversation are not the same in two stores."""
    if hasattr(answer, "version"):
        return (answer.id, answer.title, answer.status, answer.last_seq)
    return answer


@pytest.mark.parametrize(
    "name", [name for name in SAMPLES if name.startswith("calls.") and name != "calls.waiting"]
)
async def test_every_call_function_says_that_the_conversation_is_not_there(hub: Hub, name: str) -> None:
    await (await hub.open("ada", ID)).append(Message("m2", "assistant", (ToolCall("m2/0", "find"),)))

    with pytest.raises(NotFound, match="no conversation 'c-1' for this owner"):
        await SAMPLES[name](functions(hub)[name], "eve")


async def test_two_owners_use_the_same_id(hub: Hub) -> None:
    await hub.conversations.create("ada", ID, title="Ada's")
    await hub.conversations.create("eve", ID, title="Eve's")

    assert (await hub.conversations.get("ada", ID)).title == "Ada's"
    assert await hub.conversations.erase("eve") == Erased(1)
    assert (await hub.conversations.get("ada", ID)).title == "Ada's"
    with pytest.raises(AlreadyExists):
        await hub.conversations.create("ada", ID)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("scope", "owner", "actor"),
    [
        ("user-1", "user-1", "user-1"),
        (Colour.RED, "red", "red"),
        (SimpleNamespace(owner_id="org-7"), "org-7", None),
        (SimpleNamespace(owner_id=7), "7", None),
        (SimpleNamespace(owner_id=None, user=SimpleNamespace(id="u")), "u", "u"),
        (SimpleNamespace(owner_id="org", user=SimpleNamespace(id=5)), "org", "5"),
        (SimpleNamespace(user=SimpleNamespace(id=UUID(int=1))), str(UUID(int=1)), str(UUID(int=1))),
    ],
)
def test_a_scope_is_read_without_a_word(scope: Any, owner: str, actor: str | None) -> None:
    """S16"""
    assert (Scopes().owner(scope), Scopes().actor(scope)) == (owner, actor)
    assert type(Scopes().owner(scope)) is str


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        (None, "name an owner for it with unscoped="),
        (object(), "has no owner_id and no user.id"),
        ({"owner_id": "u"}, "has no owner_id and no user.id"),
        (SimpleNamespace(user=None), "has no owner_id and no user.id"),
        (SimpleNamespace(owner_id=object()), "has an owner that is a object"),
        (SimpleNamespace(owner_id=True), "has an owner that is a bool"),
        (SimpleNamespace(owner_id=["sk-secret"]), "has an owner that is a list"),
    ],
)
async def test_a_scope_that_cannot_be_read_is_refused_by_name_of_its_type_only(scope: Any, why: str) -> None:
    """L44: the text of the error does not show what is in it."""
    hub = Hub(MemoryStore("memory://x"))

    for name, function in functions(hub).items():
        with pytest.raises(InvalidScope, match=why) as caught:
            await SAMPLES[name](function, scope)
        assert "secret" not in str(caught.value)
        assert type(scope).__name__ in str(caught.value)


def test_tenancy_by_organisation_is_one_line() -> None:
    """S16"""
    scopes = Scopes(lambda scope: scope["org"], lambda scope: scope.get("user"), unscoped="system")

    assert (scopes.owner({"org": "acme"}), scopes.actor({"org": "acme"})) == ("acme", None)
    assert (scopes.owner({"org": "acme", "user": "u"}), scopes.actor({"user": "u"})) == ("acme", "u")
    assert (scopes.owner(None), scopes.actor(None)) == ("system", None)


@pytest.mark.parametrize(
    ("owner_of", "error", "why"),
    [
        (lambda scope: scope.org, InvalidScope, r"can't be read by owner_of \(AttributeError\)"),
        (lambda scope: scope["org"], InvalidScope, r"can't be read by owner_of \(TypeError\)"),
        (lambda scope: None, InvalidScope, "owner_of gave a NoneType, not a string"),
        (lambda scope: 5, InvalidScope, "owner_of gave a int, not a string"),
        (lambda scope: "", InvalidKey, "owner must not be empty"),
        (lambda scope: "a\0b", InvalidKey, "owner must not contain NUL"),
    ],
)
def test_an_owner_that_is_none_is_refused(owner_of: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        Scopes(owner_of).key(object(), ID)


def test_what_the_application_raises_itself_passes() -> None:
    def owner_of(scope: object) -> str:
        raise PermissionError("logged out")

    with pytest.raises(PermissionError, match="logged out"):
        Scopes(owner_of).owner("ada")


async def test_none_is_an_owner_of_its_own_if_it_is_named() -> None:
    async with holdfast.connect(f"memory://{uuid4()}", unscoped="system") as hub:
        await hub.conversations.create(None, ID)

        assert (await hub.conversations.get("system", ID)).id == ID
        assert await hub.conversations.get_or_none("ada", ID) is None
    with pytest.raises(InvalidKey, match="unscoped owner must not be empty"):
        holdfast.connect("memory://", unscoped="")


async def test_who_acted_stands_in_the_log(hub: Hub) -> None:
    await (await hub.open("ada", ID)).append(Message("m2", "assistant", (ToolCall("m2/0", "find"),)))
    wait = await hub.calls.interrupt("ada", ID, "m2/0")
    await hub.conversations.rename("ada", ID, "A trip")

    resolution = await hub.calls.record_decision("ada", ID, "m2/0", "approve", step=wait.step)

    events = await hub.store.events((await hub.store.headers("ada"))[0].key)
    assert resolution.actor == "ada"
    assert [event.type for event in events if b'"actor":"ada"' in event.data] == ["state", "resolution"]
