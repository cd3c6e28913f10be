"""All or nothing: what fails changes nothing, and fails for the same reason everywhere."""

from __future__ import annotations

import itertools
from typing import TypedDict

import pytest

from holdfast.errors import (
    AlreadyExists,
    Busy,
    Fenced,
    HoldfastError,
    InvalidInput,
    NoSuchEvent,
    NotFound,
    SeqConflict,
    StaleCall,
    StaleHeader,
    StaleRecord,
    TokenConflict,
)
from holdfast.model.records import Lease
from holdfast.store import (
    ABSENT,
    ConversationKey,
    DropRecords,
    MoveCall,
    Op,
    Redact,
    Rest,
    SetHeader,
    Store,
    Tag,
    Untag,
    Wake,
)
from holdfast.testing.build import (
    a_call,
    a_key,
    a_rich_conversation,
    answered,
    cancelled,
    expired,
    interrupted,
    noted,
    pending,
    put,
    said,
    seen,
    started,
)
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.leases import taken
from holdfast.testing.conformance.topic import Topic


class Guards(TypedDict, total=False):
    """What a commit can be given beside its operations."""

    token: str
    expect: int
    fence: int
    create: SetHeader


OTHERS: dict[str, list[Op]] = {
    "Append": [said("hello again")],
    "Append with ids": [said("new", id="new"), said("known", id="event-3")],
    "SetHeader": [SetHeader(title="new", status="running", tail=2, metadata=b"[]")],
    "OpenCall": [pending("new"), interrupted("new too", expires_in=1)],
    "MoveCall": [MoveCall("pending", "interrupted", frozenset(("pending",)), data=b"new", expires_in=1)],
    "PutRecord": [put("one", b"new"), put("three", b"new"), put("photo", collection="media", keep=True)],
    "DropRecords": [DropRecords("notes", prefix="tw")],
    "Tag": [Tag("topic", "travel", "new"), Tag("topic", "new")],
    "Untag": [Untag("topic", "travel"), Untag("topic", "food", "here")],
    "Wake": [Wake()],
    "Rest": [Rest()],
    "Redact": [Redact(1), Redact(3)],
}
"""Operations that would work, one for each kind and each way it can change something."""

FAILURES: dict[str, tuple[type[HoldfastError], list[Op]]] = {
    "open a known call": (StaleCall, [pending("completed")]),
    "move an unknown call": (StaleCall, [answered("unknown")]),
    "move from another status": (StaleCall, [started("interrupted")]),
    "move from another step": (StaleCall, [answered("interrupted", step=7)]),
    "answer after the expiry": (StaleCall, [answered("overdue")]),
    "expire before the time": (StaleCall, [expired("interrupted")]),
    "put at another revision": (StaleRecord, [put("guarded", when=1)]),
    "put where one is": (StaleRecord, [put("guarded", when=ABSENT)]),
    "put where none is": (StaleRecord, [put("absent", when=1)]),
    "set at another version": (StaleHeader, [SetHeader(agent="new", when=1)]),
    "rest while a call runs": (Busy, [Rest(), MoveCall("executing", "detached", frozenset(("executing",)))]),
    "redact what is not there": (NoSuchEvent, [Redact(99)]),
}
"""Operations that fail in ``a_guarded_conversation``, and how."""


PRECEDENCE: tuple[type[HoldfastError], ...] = (
    TokenConflict,
    AlreadyExists,
    Fenced,
    SeqConflict,
    StaleCall,
    StaleRecord,
    StaleHeader,
    Busy,
    NoSuchEvent,
)
"""The errors of a commit in the order in which they are checked."""


async def a_guarded_conversation(store: Store, clock: FakeClock) -> tuple[ConversationKey, Lease]:
    """A rich conversation with a lease, a used token, and a call that is past its expiry."""
    key = await a_rich_conversation(store)
    await store.commit(key, [put("guarded"), interrupted("overdue", expires_in=1)], token="used")
    clock.advance(seconds=1)
    return key, await taken(store, "holder", ttl=100)


class AtomicRules(Topic):
    @pytest.mark.parametrize("failure", FAILURES)
    async def test_an_operation_that_fails_takes_every_other_one_back(
        self, store: Store, other: Store, clock: FakeClock, failure: str
    ) -> None:
        key, lease = await a_guarded_conversation(store, clock)
        error, failing = FAILURES[failure]
        before = await seen(store, "ada")

        everything = [op for name, ops in OTHERS.items() if name != "Rest" for op in ops]
        for others in (*OTHERS.values(), everything):
            for ops in ([*others, *failing], [*failing, *others]):
                with pytest.raises(error):
                    await store.commit(key, ops, expect=4, fence=lease.fence, token="new")
                assert await seen(store, "ada") == before, others

        assert await seen(other, "ada") == before
        await store.commit(key, everything, expect=4, fence=lease.fence, token="new")
        assert await seen(store, "ada") != before

    @pytest.mark.parametrize("error", [TokenConflict, AlreadyExists, Fenced, SeqConflict])
    async def test_a_commit_that_is_refused_as_a_whole_changes_nothing(
        self, store: Store, other: Store, clock: FakeClock, error: type[HoldfastError]
    ) -> None:
        key, lease = await a_guarded_conversation(store, clock)
        wrong: dict[type[HoldfastError], Guards] = {
            TokenConflict: {"token": "used"},
            AlreadyExists: {"create": SetHeader(title="new", when=ABSENT)},
            Fenced: {"fence": lease.fence + 1},
            SeqConflict: {"expect": 3},
        }
        before = await seen(store, "ada")

        for others in OTHERS.values():
            guards: Guards = {"expect": 4, "fence": lease.fence, **wrong[error]}
            with pytest.raises(error):
                await store.commit(key, others, **guards)

        assert await seen(store, "ada") == await seen(other, "ada") == before

    @pytest.mark.parametrize("failure", [name for name in FAILURES if name != "rest while a call runs"])
    async def test_a_commit_that_fails_creates_no_conversation(self, store: Store, failure: str) -> None:
        _, failing = FAILURES[failure]
        before = await seen(store, "ada")
        if failure in ("open a known call", "put where one is"):
            failing = [answered("unknown")]

        with pytest.raises(HoldfastError):
            await store.commit(
                a_key(), [said("hello"), put("a"), Tag("topic", "food"), *failing], create=SetHeader()
            )

        assert await seen(store, "ada") == before
        assert (await store.commit(a_key(), [noted(1)], create=SetHeader(when=ABSENT))).seqs == (1,)

    async def test_of_two_reasons_the_one_that_is_checked_first_is_given(
        self, store: Store, clock: FakeClock
    ) -> None:
        key, lease = await a_guarded_conversation(store, clock)
        await a_call(store, key, "executing", "runs")
        before = await seen(store, "ada")

        for earlier, later in itertools.combinations(PRECEDENCE, 2):
            for first, second in ((earlier, later), (later, earlier)):
                ops = [*_violates(first)[0], *_violates(second)[0]]
                guards: Guards = {
                    "expect": 4,
                    "fence": lease.fence,
                    **_violates(first)[1],
                    **_violates(second)[1],
                }
                with pytest.raises(HoldfastError) as caught:
                    await store.commit(key, ops, **guards)
                assert caught.type is earlier, (earlier, later)

        assert await seen(store, "ada") == before

    async def test_a_conversation_that_is_not_there_is_the_first_reason(self, store: Store) -> None:
        for later in PRECEDENCE[2:]:
            ops, wrong = _violates(later)
            guards: Guards = {"expect": 4, "fence": 1, **wrong}

            with pytest.raises(NotFound):
                await store.commit(a_key("missing"), ops, **guards)

    @pytest.mark.parametrize("kind", ["twice", "large", "token"])
    async def test_what_can_never_work_comes_before_everything(
        self, store: Store, clock: FakeClock, kind: str
    ) -> None:
        key, _ = await a_guarded_conversation(store, clock)
        never: dict[str, list[Op]] = {
            "twice": [put("a"), put("a")],
            "large": [put("a", b"1" * (store.limits.max_commit + 1))],
            "token": [],
        }
        token = "\0" if kind == "token" else "used"

        with pytest.raises(InvalidInput):
            await store.commit(
                key, never[kind], token=token, create=SetHeader(when=ABSENT), fence=0, expect=99
            )
        with pytest.raises(InvalidInput):
            await store.commit(a_key("missing"), never[kind], token=token)


def _violates(error: type[HoldfastError]) -> tuple[list[Op], Guards]:
    """Operations and guards that fail in this way, and in no other, where a call runs."""
    violations: dict[type[HoldfastError], tuple[list[Op], Guards]] = {
        TokenConflict: ([], {"token": "used"}),
        AlreadyExists: ([], {"create": SetHeader(when=ABSENT)}),
        Fenced: ([], {"fence": 1}),
        SeqConflict: ([], {"expect": 99}),
        StaleCall: ([cancelled("completed")], {}),
        StaleRecord: ([put("guarded", when=ABSENT)], {}),
        StaleHeader: ([SetHeader(title="new", when=1)], {}),
        Busy: ([Rest()], {}),
        NoSuchEvent: ([Redact(99)], {}),
    }
    return violations[error]
