"""Leases: one holder at a time, and fences that keep the slow one out."""

from __future__ import annotations

import pytest

from holdfast.errors import Fenced, InvalidOp
from holdfast.model.records import Lease
from holdfast.store import Rest, SetHeader, Store, Wake
from holdfast.testing.build import a_conversation, a_key, noted
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.topic import Topic


async def taken(store: Store, holder: str = "left", *, ttl: float = 10, id: str = "c-1") -> Lease:
    """The lease of a conversation that is free to take."""
    lease = await store.acquire(a_key(id), holder, ttl=ttl)
    assert lease is not None
    return lease


class LeaseRules(Topic):
    async def test_a_lease_says_who_holds_it_and_until_when(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store)

        lease = await taken(store, "left", ttl=2.5)

        assert (lease.key, lease.holder, lease.until) == (key, "left", clock() + 2_500_000)
        assert (await store.header(key)).lease == lease

    async def test_a_living_lease_is_not_given_to_another(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        """L34: it is never taken on a guess."""
        key = await a_conversation(store)
        lease = await taken(store, "left", ttl=10)
        clock.advance(seconds=9.999999)

        assert await other.acquire(key, "right", ttl=10) is None

        assert (await store.header(key)).lease == lease
        await store.commit(key, [noted(1)], fence=lease.fence)

    async def test_a_lease_that_ran_out_is_taken_over_and_counted(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store)
        old = await taken(store, "left", ttl=10)
        clock.advance(seconds=10)

        new = await taken(other, "right", ttl=10)

        header = await store.header(key)
        assert new.fence > old.fence
        assert (header.lease, header.takeovers) == (new, 1)

    async def test_the_same_holder_gets_a_new_fence_that_makes_the_old_one_void(self, store: Store) -> None:
        key = await a_conversation(store)
        old = await taken(store, "left", ttl=10)

        new = await taken(store, "left", ttl=20)

        assert new.fence > old.fence
        assert (await store.header(key)).takeovers == 0
        await store.commit(key, [noted(1)], fence=new.fence)
        with pytest.raises(Fenced):
            await store.commit(key, [noted(2)], fence=old.fence)

    async def test_fences_only_grow(self, store: Store, clock: FakeClock) -> None:
        """L2: also over a release, a clock that goes back, a delete and a new start."""
        key = await a_conversation(store)
        fences: list[int] = []

        for _ in range(2):
            fences.append((await taken(store, "left", ttl=10)).fence)
            fences.append((await taken(store, "left", ttl=10)).fence)
            clock.advance(seconds=100)
            fences.append((lease := await taken(store, "right", ttl=10)).fence)
            clock.advance(seconds=-1_000_000)
            await store.release(lease)
            fences.append((await taken(store, "left", ttl=10)).fence)
            await store.delete(key)
            await a_conversation(store)

        assert fences == sorted(set(fences))

    async def test_an_old_lease_can_not_commit_after_a_takeover(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        """L34: two live agents never both write one conversation."""
        key = await a_conversation(store)
        slow = await taken(store, "slow", ttl=10)
        clock.advance(seconds=10)
        quick = await taken(other, "quick", ttl=10)

        with pytest.raises(Fenced) as caught:
            await store.commit(key, [noted(1)], fence=slow.fence)
        await other.commit(key, [noted(2)], fence=quick.fence)

        assert (caught.value.key, caught.value.fence) == (key, slow.fence)
        assert [event.data for event in await store.events(key)] == [b"2"]

    async def test_time_alone_does_not_fence(self, store: Store, clock: FakeClock) -> None:
        """L34: a fence is compared by number."""
        key = await a_conversation(store)
        lease = await taken(store, ttl=10)

        for step in (11, 1_000_000, -2_000_000):
            clock.advance(seconds=step)
            await store.commit(key, [noted(1)], fence=lease.fence)

        assert (await store.header(key)).last_seq == 3

    async def test_a_released_lease_is_fenced(self, store: Store, other: Store) -> None:
        key = await a_conversation(store)
        lease = await taken(store)

        await other.release(lease)

        header = await store.header(key)
        assert (header.lease, header.takeovers) == (None, 0)
        with pytest.raises(Fenced):
            await store.commit(key, [noted(1)], fence=lease.fence)
        await taken(other, "right")

    async def test_a_fence_without_any_lease_is_refused(self, store: Store) -> None:
        key = await a_conversation(store)

        for fence in (0, 1, 2**40):
            with pytest.raises(Fenced):
                await store.commit(key, [noted(1)], fence=fence)

        assert (await store.header(key)).last_seq == 0

    async def test_a_fence_of_before_a_new_start_is_refused(self, store: Store) -> None:
        key = await a_conversation(store)
        old = await taken(store, "left")
        await store.delete(key)
        await a_conversation(store)
        new = await taken(store, "left")

        with pytest.raises(Fenced):
            await store.commit(key, [noted(1)], fence=old.fence)

        assert new.fence != old.fence

    async def test_a_commit_without_a_fence_needs_no_lease(self, store: Store) -> None:
        key = await a_conversation(store)
        lease = await taken(store)

        await store.commit(key, [noted(1)])

        assert (await store.header(key)).lease == lease

    async def test_leases_change_neither_revision_nor_version_nor_activity(
        self, store: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store)
        before = await store.header(key)
        clock.advance(seconds=1)

        lease = await taken(store)
        [lease] = await store.renew([lease], ttl=20)
        held = await store.header(key)
        await store.release(lease)

        for header in (held, await store.header(key)):
            assert (header.revision, header.version) == (before.revision, before.version)
            assert header.activity == before.activity

    async def test_several_leases_are_renewed_at_once(self, store: Store, clock: FakeClock) -> None:
        for id in ("a", "b", "c"):
            await a_conversation(store, id)
        leases = [await taken(store, id=id, ttl=10) for id in ("a", "b", "c")]
        clock.advance(seconds=9)

        renewed = await store.renew(leases, ttl=10)

        assert [(lease.key.id, lease.until) for lease in renewed] == [
            (id, clock() + 10_000_000) for id in "abc"
        ]
        assert [lease.fence for lease in renewed] == [lease.fence for lease in leases]
        for lease in renewed:
            assert (await store.header(lease.key)).lease == lease
        clock.advance(seconds=9)
        assert await store.acquire(a_key("a"), "right", ttl=1) is None

    async def test_a_lease_that_is_gone_is_not_renewed(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        for id in ("held", "ran out", "taken over", "released", "deleted"):
            await a_conversation(store, id)
        short = [await taken(store, "left", id=id, ttl=5) for id in ("ran out", "taken over")]
        long = [await taken(store, "left", id=id, ttl=50) for id in ("held", "released", "deleted")]
        await store.release(long[1])
        await store.delete(a_key("deleted"))
        clock.advance(seconds=5)
        new = await taken(other, "right", id="taken over", ttl=50)

        renewed = await store.renew([*short, *long], ttl=100)

        assert [lease.key.id for lease in renewed] == ["held"]
        assert (await store.header(a_key("taken over"))).lease == new
        assert (await store.header(a_key("released"))).lease is None
        assert await store.renew([], ttl=1) == []

    async def test_a_lease_renewed_by_its_holder_can_be_given_in_any_older_form(
        self, store: Store, clock: FakeClock
    ) -> None:
        await a_conversation(store)
        first = await taken(store, ttl=10)
        [second] = await store.renew([first], ttl=20)
        clock.advance(seconds=15)

        [third] = await store.renew([first], ttl=20)
        await store.release(second)

        assert third.until == clock() + 20_000_000
        assert (await store.header(first.key)).lease is None

    async def test_releasing_a_lease_that_is_no_longer_held_changes_nothing(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store)
        old = await taken(store, "left", ttl=5)
        clock.advance(seconds=5)
        new = await taken(other, "right")
        gone = await a_conversation(store, "gone")
        orphan = await taken(store, id="gone")
        await store.delete(gone)

        await store.release(old)
        await store.release(old, defer=1)
        await store.release(orphan, defer=1)

        header = await store.header(key)
        assert (header.lease, header.wake_at) == (new, None)

    async def test_defer_marks_work_for_later_and_for_others(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store, ops=[Wake()])
        [lease] = await store.claim("left", ttl=10)

        await store.release(lease, defer=30)

        assert (await store.header(key)).wake_at == clock() + 30_000_000
        assert await other.claim("right", ttl=10) == []
        clock.advance(seconds=30)
        assert [lease.key for lease in await other.claim("right", ttl=10)] == [key]

    async def test_release_without_defer_leaves_the_mark(self, store: Store, clock: FakeClock) -> None:
        key = await a_conversation(store, ops=[Wake()])
        [lease] = await store.claim("left", ttl=10)

        await store.release(lease)

        assert (await store.header(key)).wake_at == clock()
        assert len(await store.claim("right", ttl=10)) == 1

    async def test_rest_with_release_gives_the_lease_back(self, store: Store) -> None:
        key = await a_conversation(store, ops=[Wake()])
        lease = await taken(store)

        await store.commit(key, [Rest(release=True)], fence=lease.fence, expect=0)

        header = await store.header(key)
        assert (header.lease, header.wake_at) == (None, None)
        with pytest.raises(Fenced):
            await store.commit(key, [noted(1)], fence=lease.fence)

    async def test_takeovers_are_counted_until_they_are_set_to_zero(
        self, store: Store, clock: FakeClock
    ) -> None:
        key = await a_conversation(store)
        for holder in ("a", "b", "b", "c"):
            await taken(store, holder, ttl=1)
            clock.advance(seconds=1)

        assert (await store.header(key)).takeovers == 3
        await store.commit(key, [SetHeader(takeovers=0)])

        assert (await store.header(key)).takeovers == 0

    @pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "10"])
    async def test_a_ttl_is_a_number_of_seconds_above_zero(self, store: Store, ttl: float) -> None:
        key = await a_conversation(store, ops=[Wake()])

        with pytest.raises(InvalidOp):
            await store.acquire(key, "left", ttl=ttl)
        with pytest.raises(InvalidOp):
            await store.claim("left", ttl=ttl)
        with pytest.raises(InvalidOp):
            await store.renew([], ttl=ttl)

        assert (await store.header(key)).lease is None
