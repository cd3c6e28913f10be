"""Commits that wait are written in groups, and each member stands alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.ids import ConversationKey
from holdfast.model.records import Commit
from holdfast.store import Append
from holdfast.store.change import Change
from holdfast.store.sql.groups import MAX_COMMITS, Groups, Outcome, each_alone_if_not_together

pytestmark = pytest.mark.anyio


def a_change(id: str, data: bytes = b"1") -> Change:
    return Change.of(ConversationKey("ada", id), [Append("notice", data)])


def done(change: Change) -> Commit:
    return Commit((1,), (), 0, 1, int(change.net.appends[0].data))


class Server:
    """Writes a group when it is let; notes which ones it was given."""

    def __init__(self, *, writers: int = 1) -> None:
        self.groups: list[list[Change]] = []
        self.gate = asyncio.Event()
        self.queue = Groups(self.write, writers=writers)

    async def write(self, changes: list[Change]) -> Sequence[Outcome]:
        self.groups.append(changes)
        await self.gate.wait()
        return [done(change) for change in changes]

    async def second_group(self) -> None:
        async with asyncio.timeout(20):
            while True:
                if len(self.groups) > 1:
                    return
                await asyncio.sleep(0.01)

    async def commit_all(self, *changes: Change) -> list[asyncio.Task[Commit]]:
        tasks = [asyncio.create_task(self.queue.commit(change)) for change in changes]
        for _ in range(3):
            await asyncio.sleep(0)
        return tasks


async def test_what_waits_while_a_group_is_written_is_the_next_one() -> None:
    server = Server()

    first = await server.commit_all(a_change("a"))
    others = await server.commit_all(*(a_change(f"{n}") for n in range(5)))
    server.gate.set()
    await asyncio.gather(*first, *others)

    assert [len(group) for group in server.groups] == [1, 5]


async def test_a_group_has_one_commit_of_a_conversation_and_they_keep_their_order() -> None:
    server = Server(writers=3)

    tasks = await server.commit_all(*(a_change(f"{n % 2}", b"%d" % n) for n in range(8)))
    server.gate.set()
    commits = await asyncio.gather(*tasks)

    for group in server.groups:
        assert len({change.key for change in group}) == len(group)
    for id in ("0", "1"):
        written = [int(c.net.appends[0].data) for group in server.groups for c in group if c.key.id == id]
        assert written == sorted(written)
    assert [commit.at for commit in commits] == list(range(8))


async def test_a_group_that_takes_long_holds_up_its_own_conversations_and_no_others() -> None:
    server = Server(writers=4)

    tasks = await server.commit_all(*(a_change("a", b"%d" % n) for n in range(3)), a_change("b"))
    at_once = len(server.groups)
    await server.second_group()

    assert at_once == 1
    assert [[change.key.id for change in group] for group in server.groups] == [["a"], ["b"]]
    server.gate.set()
    await asyncio.gather(*tasks)


async def test_many_commits_do_not_wait_for_a_group_that_is_being_written() -> None:
    server = Server(writers=2)

    tasks = await server.commit_all(a_change("alone"), *(a_change(f"{n}") for n in range(MAX_COMMITS)))

    assert [len(group) for group in server.groups] == [1, MAX_COMMITS]
    server.gate.set()
    await asyncio.gather(*tasks)


async def test_many_commits_that_come_at_once_are_shared_by_the_writers() -> None:
    server = Server(writers=2)
    before = await server.commit_all(*(a_change(f"{n}") for n in range(3)))
    server.gate.set()
    await asyncio.gather(*before)
    server.gate.clear()
    server.groups.clear()

    tasks = await server.commit_all(*(a_change(f"{n}") for n in range(MAX_COMMITS)))

    assert [len(group) for group in server.groups] == [MAX_COMMITS // 2] * 2
    server.gate.set()
    await asyncio.gather(*tasks)


async def test_a_commit_that_comes_when_a_writer_has_just_finished_is_written() -> None:
    server = Server(writers=2)
    server.gate.set()

    async def write(id: str) -> None:
        for _ in range(50):
            await server.queue.commit(a_change(id))

    async with asyncio.timeout(20):
        await asyncio.gather(*(write(f"{n}") for n in range(20)))

    assert sum(len(group) for group in server.groups) == 1000


async def test_groups_are_limited_in_number_and_size() -> None:
    sizes = []
    for data, count in ((b"1", 3 * MAX_COMMITS), (b"1" * 600_000, 6)):
        server = Server()
        tasks = await server.commit_all(a_change("alone"), *(a_change(f"{n}", data) for n in range(count)))
        server.gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        sizes.append([len(group) for group in server.groups])

    assert sizes == [[1, *[MAX_COMMITS] * 3], [1, 2, 2, 2]]


async def test_a_waiter_that_is_cancelled_leaves_its_group_and_one_that_was_not_taken_is_left_out() -> None:
    server = Server(writers=2)
    alone = await server.commit_all(a_change("alone"))
    many = [a_change(f"{n}") for n in range(MAX_COMMITS - 2)]
    taken = await server.commit_all(a_change("a"), a_change("b"), *many)
    waiting = await server.commit_all(a_change("c"), a_change("a"), a_change("d"))

    for task in (taken[0], waiting[0], waiting[1]):
        task.cancel()
    await asyncio.sleep(0)
    server.gate.set()
    outcomes = await asyncio.gather(*taken[:2], *waiting, *alone, return_exceptions=True)

    cancelled = [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes]
    assert cancelled == [True, False, True, True, False, False]
    assert [len(group) for group in server.groups] == [1, MAX_COMMITS, 1]
    assert server.groups[2][0].key.id == "d"


async def test_closing_waits_for_what_was_accepted() -> None:
    server = Server()
    tasks = await server.commit_all(*(a_change(f"{n % 3}") for n in range(6)))

    asyncio.get_running_loop().call_later(0.01, server.gate.set)
    await server.queue.close()

    assert all(task.done() for task in tasks)


async def test_if_a_group_fails_each_member_is_tried_alone_and_only_the_one_at_fault_fails() -> None:
    attempts: list[list[int]] = []

    async def write(numbers: Sequence[int]) -> list[int]:
        attempts.append(list(numbers))
        if 2 in numbers:
            raise StoreError("refused")
        return [10 * number for number in numbers]

    outcomes = await each_alone_if_not_together(write, [1, 2, 3])

    assert attempts == [[1, 2, 3], [1], [2], [3]]
    assert outcomes[0::2] == [10, 30]
    assert isinstance(outcomes[1], StoreError)


async def test_if_nobody_knows_what_became_of_a_group_it_is_not_tried_again() -> None:
    """L5"""
    attempts = 0

    async def write(numbers: Sequence[int]) -> list[int]:
        nonlocal attempts
        attempts += 1
        raise StoreUnavailable("cut")

    outcomes = await each_alone_if_not_together(write, [1, 2, 3])

    assert attempts == 1
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
