"""Copying between stores: all that a conversation is arrives, once, whatever stops the copy."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.copying import Problem, Progress, copy
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.ids import ConversationKey
from holdfast.model.records import FINAL, MOVES, Call, CallStatus, Header
from holdfast.store import Append, DropRecords, MoveCall, OpenCall, PutRecord, Store, Tag, connect
from holdfast.store.memory import MemoryStore
from holdfast.testing import FakeClock
from holdfast.testing.build import (
    Seen,
    a_call,
    a_conversation,
    a_key,
    a_rich_conversation,
    noted,
    put,
    said,
    seen,
)

pytestmark = pytest.mark.anyio

STATUSES: list[CallStatus] = sorted({*MOVES, *FINAL})
OWNERS = ("ada", "eve", "'; DROP TABLE events; --", "../../etc")


def plain(found: Seen, clock: FakeClock) -> Seen:
    """What was seen, without the numbers that every store gives anew. What is late is late from now on."""

    def header(of: Header) -> Header:
        wake_at = of.wake_at and max(of.wake_at, clock())
        return replace(of, revision=0, version=0, wake_at=wake_at)

    def calls(some: list[Call]) -> list[Call]:
        return [replace(c, expires_at=c.expires_at and max(c.expires_at, clock())) for c in some]

    return replace(
        found,
        by_activity=[header(h) for h in found.by_activity],
        by_creation=[header(h) for h in found.by_creation],
        tagged=[[header(h) for h in headers] for headers in found.tagged],
        records=[[replace(r, revision=0) for r in records] for records in found.records],
        calls=[calls(some) for some in found.calls],
        open_calls=[calls(some) for some in found.open_calls],
        due=sorted(calls(found.due), key=lambda call: (call.key, call.call_id)),
    )


async def fill(store: Store, clock: FakeClock) -> None:
    """Conversations of several owners, with something of everything in them."""
    for owner in OWNERS:
        for id in ("c-1", "c-2"):
            clock.advance(seconds=7)
            await a_rich_conversation(store, id, owner)
            clock.advance(seconds=3)
            await store.commit(a_key(id, owner), [said("later"), put("late")])
    key = await a_conversation(store, "calls")
    for status in STATUSES:
        if status != "expired":
            await a_call(store, key, status)
    await store.commit(key, [OpenCall("asked twice", "tool", "interrupted")])
    await store.commit(key, [MoveCall("asked twice", "pending", frozenset(("interrupted",)))])
    await store.commit(key, [MoveCall("asked twice", "interrupted", frozenset(("pending",)), expires_in=9)])
    await store.commit(key, [OpenCall("too late", "tool", "interrupted", expires_in=1)])
    clock.advance(seconds=2)
    await store.commit(key, [MoveCall("too late", "expired", frozenset(("interrupted",)))])
    odd = await a_conversation(store, "odd", ops=[noted(n) for n in range(1_200)])
    await store.commit(odd, [PutRecord("other", f"{n}", b"%d" % n) for n in range(700)])
    await store.commit(odd, [Append("redacted", b'{"hash": "x"}'), Tag("a", "b", "c")])
    clock.advance(seconds=2)
    await store.commit(odd, [put("gone")])
    await store.commit(odd, [DropRecords("notes", key="gone")])
    await a_conversation(store, "empty")
    clock.advance(seconds=1000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def source(clock: FakeClock) -> AsyncIterator[Store]:
    async with MemoryStore(clock=clock) as store:
        await fill(store, clock)
        yield store


@pytest.fixture
async def target(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with connect(f"sqlite:///{tmp_path}/target.db", clock=clock) as store:
        yield store


async def test_everything_arrives_as_it_was(source: Store, target: Store, clock: FakeClock) -> None:
    told: list[Progress] = []

    copied = await copy(source, target, on_progress=told.append, clock=clock)

    assert copied.problems == ()
    assert (copied.conversations, copied.unchanged) == (11, 0)
    assert plain(await seen(target, *OWNERS), clock) == plain(await seen(source, *OWNERS), clock)
    for store in (source, target):
        assert (await store.inventory(a_key("odd"))).collections == ["other"]
        assert await store.texts(a_key()) == {
            1: "hello there",
            2: "a secret thing",
            3: "hello again",
            5: "later",
        }
    assert told[0] == Progress(0, 11, 0, copied.events)
    assert told[-1] == Progress(11, 11, copied.events, copied.events)


async def test_only_the_owners_that_are_named_are_copied(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await copy(source, target, owners=["eve", "eve", "nobody"], clock=clock)

    assert await target.owners() == ["eve"]
    assert plain(await seen(target, "eve"), clock) == plain(await seen(source, "eve"), clock)


async def test_what_is_there_is_left_alone_unless_it_is_the_same_and_the_copy_goes_on(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await a_conversation(target, "c-1", says=["mine"])
    await copy(source, target, owners=["eve"], clock=clock)

    first = await copy(source, target, owners=["ada", "eve"], clock=clock)
    again = await copy(source, target, resume=True, clock=clock)

    assert {problem.key for problem in first.problems} == {
        a_key("c-1"),
        a_key("c-1", "eve"),
        a_key("c-2", "eve"),
    }
    [problem] = again.problems
    assert isinstance(problem, Problem)
    assert problem.key == a_key("c-1")
    assert "another content" in problem.reason
    assert again.unchanged == 11 - 1 - 4
    assert [event.data for event in await target.events(a_key("c-1"))] == [b'{"text": "mine"}']
    await target.delete(a_key("c-1"))
    last = await copy(source, target, resume=True, clock=clock)
    assert (last.conversations, last.unchanged, last.problems) == (1, 10, ())
    assert plain(await seen(target, *OWNERS), clock) == plain(await seen(source, *OWNERS), clock)


class Failing(MemoryStore):
    """Fails at one of its commits, before or after it is applied, and works again afterwards."""

    left = 0
    applied = False

    async def _commit(self, change):  # type: ignore[no-untyped-def]
        self.left -= 1
        if self.left == 0 and not self.applied:
            raise StoreUnavailable("gone")
        commit = await super()._commit(change)
        if self.left == 0:
            raise StoreUnavailable("gone")
        return commit


@pytest.mark.parametrize("applied", [True, False])
async def test_a_copy_that_stopped_anywhere_goes_on(clock: FakeClock, applied: bool) -> None:
    async with MemoryStore(clock=clock) as source:
        await a_rich_conversation(source, "c-1")
        await a_rich_conversation(source, "c-2")
        expected = plain(await seen(source, "ada"), clock)
        stops = 0
        for step in range(1, 1000):
            async with Failing(clock=clock) as target:
                target.left, target.applied = step, applied
                try:
                    await copy(source, target, clock=clock, at_once=1)
                except StoreUnavailable:
                    stops += 1
                    await copy(source, target, resume=True, clock=clock)
                assert plain(await seen(target, "ada"), clock) == expected
                if target.left > 0:
                    break
        assert stops == 18


class Busy(MemoryStore):
    """Is written to, twice, while it is read."""

    writes = 2

    async def _inventory(self, key: ConversationKey) -> tuple[set[str], list[tuple[str, str, str]]]:
        if self.writes:
            self.writes -= 1
            await self.commit(key, [said("meanwhile")])
        return await super()._inventory(key)


async def test_a_conversation_that_is_written_to_meanwhile_is_copied_again(clock: FakeClock) -> None:
    async with Busy(clock=clock) as source, MemoryStore(clock=clock) as target:
        await a_rich_conversation(source)

        copied = await copy(source, target, clock=clock)

        assert (copied.problems, copied.events) == ((), 6)
        assert plain(await seen(target, "ada"), clock) == plain(await seen(source, "ada"), clock)


async def test_what_arrives_changed_is_said_and_not_kept(source: Store, clock: FakeClock) -> None:
    class Forgetful(MemoryStore):
        async def _texts(self, key, after, before):  # type: ignore[no-untyped-def]
            return {}

    async with Forgetful(clock=clock) as target:
        copied = await copy(source, target, clock=clock)

        assert copied.problems
        assert all("another content" in problem.reason for problem in copied.problems)
        found = {header.key for owner in OWNERS for header in await target.headers(owner)}
        assert found.isdisjoint(problem.key for problem in copied.problems)


async def test_a_store_is_not_copied_to_itself(target: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="itself"):
        await copy(target, target)
    with pytest.raises(InvalidInput, match="itself"):
        await copy(target, connect(target.url))
    with pytest.raises(InvalidInput, match="at_once"):
        await copy(MemoryStore(), target, at_once=0)


# As an operator


def holdfast(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_a_command_that_is_killed_goes_on_with_resume(tmp_path: Path, clock: FakeClock) -> None:
    async with connect(f"sqlite:///{tmp_path}/a.db?durability=os") as source:
        for number in range(60):
            ops = [said(f"hello {n}") for n in range(10)]
            await a_conversation(source, f"c-{number}", ops=ops)
        async with connect(f"sqlite:///{tmp_path}/b.db") as target:
            killed = holdfast("copy", "sqlite:///a.db", "sqlite:///b.db", "--at-once", "4", cwd=tmp_path)
            while killed.poll() is None and len(await target.headers("ada", limit=99)) < 10:
                pass
            killed.send_signal(signal.SIGKILL)
            killed.communicate()
            refused = holdfast("copy", "sqlite:///a.db", "sqlite:///b.db", cwd=tmp_path)
            _, complaints = refused.communicate()
            resumed = holdfast("copy", "sqlite:///a.db", "sqlite:///b.db", "--resume", cwd=tmp_path)
            output, _ = resumed.communicate()

            assert (refused.returncode, resumed.returncode) == (1, 0)
            assert "not copied" in complaints
            assert "were there already" in output
            assert plain(await seen(target, "ada"), clock) == plain(await seen(source, "ada"), clock)
