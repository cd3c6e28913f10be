"""Work: the mark that a conversation has some, who gets it, and that none is lost."""

from __future__ import annotations

import itertools

import pytest

from holdfast.errors import Busy, InvalidOp, SeqConflict
from holdfast.model.records import CallStatus, Executor, Lease
from holdfast.store import MoveCall, Op, Rest, Store, Wake
from holdfast.testing.build import a_call, a_conversation, a_key, noted, pending, said
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.leases import taken
from holdfast.testing.conformance.topic import Topic


class Runner:
    """A process that ends a run: it reads the log, then puts the conversation to rest, and again if it must."""

    def __init__(self, store: Store, lease: Lease, *, release: bool) -> None:
        self._store, self._lease, self._release = store, lease, release
        self._expect: int | None = None
        self.read = 0
        self.rests = False

    async def step(self) -> None:
        if self.rests:
            return
        if self._expect is None:
            loaded = await self._store.load(self._lease.key)
            self.read = self._expect = loaded.header.last_seq
            return
        expect, self._expect = self._expect, None
        try:
            await self._store.commit(
                self._lease.key, [Rest(release=self._release)], fence=self._lease.fence, expect=expect
            )
        except SeqConflict:
            return
        self.rests = True


def interleavings(sends: int, steps: int) -> list[list[bool]]:
    """Every order in which that many sends and steps of a runner can happen; True is a send."""
    total = sends + steps
    return [[at in chosen for at in range(total)] for chosen in itertools.combinations(range(total), sends)]


class WorkRules(Topic):
    async def test_a_conversation_with_work_is_claimed_once(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store, ops=[said("do it"), Wake()])

        [lease] = await store.claim("left", ttl=10)

        assert (lease.key, lease.holder, lease.until) == (key, "left", clock() + 10_000_000)
        assert (await store.header(key)).lease == lease
        assert await other.claim("right", ttl=10) == []
        assert await store.claim("left", ttl=10) == []
        await store.commit(key, [noted(1)], fence=lease.fence)

    async def test_a_conversation_without_work_is_not_claimed(self, store: Store) -> None:
        await a_conversation(store, says=["just a note"])

        assert await store.claim("left", ttl=10) == []

    async def test_work_is_claimed_when_its_time_has_come(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, ops=[Wake(after=10)])
        assert (await store.header(key)).wake_at == clock() + 10_000_000

        clock.advance(seconds=9.999999)
        assert await store.claim("left", ttl=10) == []
        clock.advance(seconds=0.000001)

        assert len(await store.claim("left", ttl=10)) == 1

    @pytest.mark.parametrize(
        ("wakes", "after"),
        [([10, 5], 5), ([5, 10], 5), ([0, 0], 0), ([10, 0, 20], 0)],
    )
    async def test_an_earlier_mark_stays(
        self, store: Store, clock: FakeClock, wakes: list[float], after: float
    ) -> None:
        one = await a_conversation(store, "one", ops=[Wake(after=seconds) for seconds in wakes])
        many = await a_conversation(store, "many")
        for seconds in wakes:
            await store.commit(many, [Wake(after=seconds)])

        for key in (one, many):
            assert (await store.header(key)).wake_at == clock() + int(after * 1_000_000)

    async def test_the_longest_waiting_is_claimed_first(self, store: Store, clock: FakeClock) -> None:
        waits = {"third": 3.0, "first": 1.0, "fourth": 4.0, "second": 2.0, "later": 60.0}
        for id, after in waits.items():
            await a_conversation(store, id, "ada" if len(id) % 2 else "eve", ops=[Wake(after=after)])
        clock.advance(seconds=10)

        some = await store.claim("left", limit=3, ttl=10)
        rest = await store.claim("left", limit=3, ttl=10)

        assert [lease.key.id for lease in some] == ["first", "second", "third"]
        assert [lease.key.id for lease in rest] == ["fourth"]

    async def test_one_is_claimed_where_nobody_says_how_many(self, store: Store) -> None:
        for id in ("a", "b"):
            await a_conversation(store, id, ops=[Wake()])

        assert len(await store.claim("left", ttl=10)) == 1

    async def test_a_holder_claims_for_the_agents_it_can_run(self, store: Store) -> None:
        for agent in ("guide", "clerk", "Guide", ""):
            await a_conversation(store, f"for {agent}", agent=agent, ops=[Wake()])

        async def claimed(agents: list[str] | None) -> list[str]:
            leases = await store.claim("left", agents=agents, limit=10, ttl=10)
            return sorted(lease.key.id for lease in leases)

        assert await claimed([]) == []
        assert await claimed(["nobody"]) == []
        assert await claimed(["guide", "nobody"]) == ["for guide"]
        assert await claimed([""]) == ["for "]
        assert await claimed(None) == ["for Guide", "for clerk"]

    async def test_work_of_a_dead_holder_is_claimed_when_its_lease_ran_out(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store, ops=[Wake()])
        [old] = await store.claim("dead", ttl=10)
        clock.advance(seconds=9.999999)
        assert await other.claim("living", ttl=10) == []
        clock.advance(seconds=0.000001)

        [new] = await other.claim("living", ttl=10)

        header = await other.header(key)
        assert new.fence > old.fence
        assert (header.lease, header.takeovers) == (new, 1)

    async def test_a_run_out_lease_waits_from_its_end_on(self, store: Store, clock: FakeClock) -> None:
        await a_conversation(store, "left behind", ops=[Wake()])
        await store.claim("dead", ttl=10)
        clock.advance(seconds=5)
        await a_conversation(store, "waits", ops=[Wake()])
        clock.advance(seconds=10)

        leases = await store.claim("living", limit=2, ttl=10)

        assert [lease.key.id for lease in leases] == ["waits", "left behind"]

    async def test_a_lease_without_work_that_ran_out_is_not_claimed(
        self, store: Store, clock: FakeClock
    ) -> None:
        await a_conversation(store)
        await taken(store, ttl=1)
        clock.advance(seconds=2)

        assert await store.claim("left", ttl=10) == []

    async def test_rest_clears_the_mark_and_keeps_the_lease(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, ops=[said("do it"), Wake()])
        [lease] = await store.claim("left", ttl=10)

        await store.commit(key, [said("done"), Rest()], fence=lease.fence, expect=1)

        header = await store.header(key)
        assert (header.wake_at, header.lease, header.last_seq) == (None, lease, 2)
        clock.advance(seconds=100)
        assert await store.claim("right", ttl=10) == []

    @pytest.mark.parametrize(
        ("ops", "marked"),
        [
            ([Rest(), Wake(after=7)], 7),
            ([Wake(after=7), Rest()], None),
            ([Wake(after=7), Rest(), Wake(after=9)], 9),
            ([Rest(), Wake(after=9), Wake(after=7)], 7),
            ([Rest(release=True), Wake(after=7), Rest()], None),
        ],
    )
    async def test_wake_and_rest_of_one_commit_are_applied_in_order(
        self, store: Store, clock: FakeClock, ops: list[Op], marked: float | None
    ) -> None:
        key = await a_conversation(store, ops=[Wake()])
        [lease] = await store.claim("left", ttl=10)

        await store.commit(key, ops, fence=lease.fence, expect=0)

        header = await store.header(key)
        assert header.wake_at == (None if marked is None else clock() + int(marked * 1_000_000))
        assert (header.lease is None) == (Rest(release=True) in ops)

    async def test_rest_needs_the_lease_and_the_end_of_the_log(self, store: Store) -> None:
        """L35: otherwise input that came in meanwhile would be lost."""
        key = await a_conversation(store, ops=[Wake()])
        lease = await taken(store)

        with pytest.raises(InvalidOp):
            await store.commit(key, [Rest()])
        with pytest.raises(InvalidOp):
            await store.commit(key, [Rest()], fence=lease.fence)
        with pytest.raises(InvalidOp):
            await store.commit(key, [Rest()], expect=0)

        assert (await store.header(key)).wake_at is not None

    @pytest.mark.parametrize(
        ("status", "executor", "busy"),
        [
            ("executing", "server", True),
            ("executing", "human", False),
            ("executing", "client", False),
            ("executing", "provider", False),
            ("detached", "server", True),
            ("detached", "human", True),
            ("pending", "server", False),
            ("interrupted", "server", False),
            ("completed", "server", False),
            ("cancelled", "server", False),
        ],
    )
    async def test_a_conversation_can_not_rest_while_a_call_runs(
        self, store: Store, status: CallStatus, executor: Executor, busy: bool
    ) -> None:
        key = await a_conversation(store, ops=[Wake()])
        lease = await taken(store)
        await a_call(store, key, "completed", "done")
        await a_call(store, key, status, "call_1", executor=executor)

        if busy:
            with pytest.raises(Busy) as caught:
                await store.commit(key, [noted(1), Rest()], fence=lease.fence, expect=0)
            assert (caught.value.key, caught.value.call_id) == (key, "call_1")
        else:
            await store.commit(key, [noted(1), Rest()], fence=lease.fence, expect=0)

        header = await store.header(key)
        assert (header.wake_at is not None, header.last_seq) == (busy, 0 if busy else 1)

    async def test_rest_looks_at_the_calls_as_the_commit_leaves_them(self, store: Store) -> None:
        key = await a_conversation(store, ops=[Wake()], calls=[pending("next")])
        lease = await taken(store)
        await a_call(store, key, "executing", "call_1")
        finish = MoveCall("call_1", "completed", frozenset(("executing",)))
        begin = MoveCall("next", "executing", frozenset(("pending",)))

        with pytest.raises(Busy):
            await store.commit(key, [Rest(), finish, begin], fence=lease.fence, expect=0)
        await store.commit(key, [Rest(), finish], fence=lease.fence, expect=0)

        assert (await store.header(key)).wake_at is None

    @pytest.mark.parametrize("release", [True, False])
    async def test_input_that_races_the_end_of_a_run_is_never_lost(
        self, store: Store, other: Store, clock: FakeClock, release: bool
    ) -> None:
        """L35: in every order in which a sender and the holder can meet."""
        for number, order in enumerate(interleavings(sends=2, steps=5)):
            key = await a_conversation(store, f"c-{number}", ops=[said("first"), Wake()])
            runner = Runner(other, await taken(other, "holder", id=key.id), release=release)

            for send in order:
                if send:
                    await store.commit(key, [said("more"), Wake()])
                else:
                    await runner.step()

            header = await store.header(key)
            assert header.last_seq == 3
            assert header.wake_at is not None or runner.read == 3, order
            assert runner.rests or header.lease is not None
            clock.advance(seconds=100)
            claimed = [lease.key for lease in await store.claim("next", limit=10, ttl=1)]
            assert claimed == ([] if runner.read == 3 and header.wake_at is None else [key]), order
            await store.delete(key)

    async def test_two_holders_never_both_run_one_conversation(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        """L34"""
        ids = [f"c-{n}" for n in range(10)]
        for id in ids:
            await a_conversation(store, id, ops=[Wake()])

        left = await store.claim("left", limit=6, ttl=10)
        right = await other.claim("right", limit=6, ttl=10)

        assert sorted(lease.key.id for lease in [*left, *right]) == ids
        assert (len(left), len(right)) == (6, 4)
        for lease in (*left, *right):
            assert (await store.header(a_key(lease.key.id))).lease == lease
