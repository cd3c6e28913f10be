"""
Random operations on a store and on a memory store side by side.

Whatever one of them answers, the other must answer too. Few keys, ids and names are used, so that
operations meet. Each example has owners and agents of its own, so all of them share one store.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

import msgspec
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.errors import HoldfastError
from holdfast.ids import ConversationKey
from holdfast.model.records import OPEN, Commit, Header, Lease, Loaded
from holdfast.store import (
    Append,
    DropRecords,
    MoveCall,
    Op,
    OpenCall,
    PutRecord,
    Rest,
    SetHeader,
    Store,
    Wake,
)
from holdfast.store.memory import MemoryStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.conformance.draws import (
    COLLECTIONS,
    KINDS,
    OPS,
    RECORDS,
    SECONDS,
    moves,
    opens,
    set_header,
    thing,
)
from holdfast.testing.conformance.twins import Numbers, Twin, everything, outcome, sorted_leases
from holdfast.testing.kit import StoreKit

EXAMPLES = "HOLDFAST_EXAMPLES"
"""The environment variable that says how many examples are tried."""

NOTHING = Twin(None, None)
WRONG = Twin(1, 1)

_examples = itertools.count(1)


def compare(kit: StoreKit, *, examples: int = 20) -> None:
    """Try random operations on the store of a kit, and fail where it differs from the memory store."""
    clock = FakeClock()
    with asyncio.Runner() as runner:
        store = runner.run(kit.connect(clock=clock).open())
        try:
            run_state_machine_as_test(
                lambda: StoreMachine(runner, store, clock),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=int(os.environ.get(EXAMPLES, examples)),
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(store.close())


class Guards(TypedDict):
    """What a commit is given beside its operations."""

    token: str | None
    expect: int | None
    fence: int | None
    create: SetHeader | None
    at: int | None


class Attempt(msgspec.Struct, frozen=True):
    """A commit with a token, to be repeated."""

    key: ConversationKey
    ops: Twin
    guards: Twin


class StoreMachine(RuleBasedStateMachine):
    """Steps that are taken by a store and by a memory store, and compared."""

    def __init__(self, runner: asyncio.Runner, store: Store, clock: FakeClock) -> None:
        super().__init__()
        self.run, self.store, self.clock = runner.run, store, clock
        self.clock.set(FakeClock()())
        self.memory = MemoryStore(clock=clock)
        self.run(self.memory.open())
        self.example = f"example {next(_examples)}, "
        self.owners = [f"{self.example}ada", f"{self.example}eve"]
        self.keys = [ConversationKey(self.owners[0], id) for id in ("c-1", "c-2", "c-3")]
        self.keys += [ConversationKey(self.owners[1], "c-1"), ConversationKey(self.owners[0], "c-4")]
        self.agents = ["", f"{self.example}guide", f"{self.example}clerk"]
        self.numbers = Twin(Numbers(), Numbers())
        self.leases: list[Twin] = []
        self.revisions: dict[ConversationKey, list[Twin]] = {key: [] for key in self.keys}
        self.versions: dict[ConversationKey, list[Twin]] = {key: [] for key in self.keys}
        self.records: dict[tuple[ConversationKey, str, str], list[Twin]] = {}
        self.attempts: list[Attempt] = []
        self.fences: dict[ConversationKey, int] = {}

    def teardown(self) -> None:
        for owner in self.owners:
            assert self.run(self.store.erase(owner)) == self.run(self.memory.erase(owner))

    # Steps

    @initialize()
    def begin(self) -> None:
        for key, agent in zip(self.keys, ("", *self.agents), strict=False):
            opening = [Append("message", b"1", text="hello"), OpenCall("call_1", "tool"), Wake()]
            self._commit(key, Twin(opening, opening), create=SetHeader(agent=agent))

    @rule(data=st.data(), many=st.integers(1, 3))
    def write(self, data: st.DataObject, many: int) -> None:
        for _ in range(many):
            self._write(data)

    def _write(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.keys))
        agent = data.draw(st.sampled_from(self.agents))
        token = data.draw(st.sampled_from((None, None, "t-1", "t-2")))
        ago = data.draw(st.sampled_from((None, None, None, 0, 3, 50, -5)))
        at = None if ago is None else self.clock() - ago * 10**6
        self._commit(key, self._draw_ops(data, key), create=SetHeader(agent=agent), token=token, at=at)

    @rule(data=st.data())
    def write_with_guards(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.keys))
        last = self._last_seq(key)
        fences = [Twin(one.ours.fence, one.theirs.fence) for one in self.leases if one.ours.key == key]
        self._commit(
            key,
            self._draw_ops(data, key),
            token=data.draw(st.sampled_from((None, "t-1", "t-2"))),
            expect=data.draw(st.sampled_from((None, None, last, last, last, last + 1))),
            fence=data.draw(st.sampled_from([NOTHING, *fences[-1:] * 3, *fences[-2:-1], WRONG])),
            create=data.draw(st.sampled_from((None, None, None, SetHeader(title="new"), SetHeader(when=0)))),
        )

    @rule(data=st.data())
    def move_calls(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.keys))
        calls = self.run(outcome(self.memory.calls(key, status=OPEN)))
        if isinstance(calls, list):
            some = data.draw(st.lists(st.sampled_from(calls), max_size=2, unique_by=id)) if calls else []
            ops: list[Op] = [data.draw(moves(call)) for call in some]
            new = data.draw(opens())
            if new.call_id not in {call.call_id for call in calls}:
                ops.append(new)
            self._commit(key, Twin(ops, ops))

    @rule(data=st.data(), ttl=SECONDS, release=st.booleans())
    def end_a_run(self, data: st.DataObject, ttl: float, release: bool) -> None:
        key = data.draw(st.sampled_from(self.keys))
        lease = self._both(lambda store, _: store.acquire(key, "left", ttl=ttl))
        if isinstance(lease.ours, Lease):
            self._keep_leases([lease])
            ops = self._draw_ops(data, key)
            rest = Twin([*ops.ours, Rest(release)], [*ops.theirs, Rest(release)])
            last = self._last_seq(key)
            expect = data.draw(st.sampled_from((last, last, last, last + 1)))
            self._commit(key, rest, expect=expect, fence=Twin(lease.ours.fence, lease.theirs.fence))

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def write_again(self, data: st.DataObject) -> None:
        attempt = data.draw(st.sampled_from(self.attempts))
        self._try(attempt)

    @rule(data=st.data(), fork=st.booleans())
    def end_or_fork(self, data: st.DataObject, fork: bool) -> None:
        if fork:
            self._fork(data)
        else:
            key = data.draw(st.sampled_from(self.keys))
            guarded = data.draw(st.sampled_from((False, True, True)))
            when = self._draw_guard(data, self.revisions[key]) if guarded else NOTHING
            self._both(lambda store, when: store.delete(key, when=when), when)

    def _fork(self, data: st.DataObject) -> None:
        key, fork = (
            self.keys[data.draw(st.integers(0, 2))],
            self.keys[data.draw(st.sampled_from((1, 2, 4, 4)))],
        )
        if key != fork and data.draw(st.booleans()):
            self._both(lambda store, _: store.delete(fork))
        there = isinstance(self.run(outcome(self.memory.header(fork))), Header)
        at = None if there else data.draw(st.sampled_from((None, None, 0, 1, 2)))
        collections = data.draw(st.sampled_from(((), ("notes",), COLLECTIONS)))
        self._both(
            lambda store, ops: store.fork(key, fork.id, at=at, collections=collections, ops=ops),
            self._draw_ops(data, fork),
        )

    @rule(data=st.data(), holder=st.sampled_from(("left", "right")), ttl=SECONDS, claim=st.booleans())
    def take_leases(self, data: st.DataObject, holder: str, ttl: float, claim: bool) -> None:
        if claim:
            agents = data.draw(st.lists(st.sampled_from(self.agents[1:]), min_size=1, unique=True))
            claimed = self._both(
                lambda store, _: sorted_leases(store.claim(holder, agents=agents, limit=10, ttl=ttl))
            )
            self._keep_leases([Twin(*leases) for leases in zip(claimed.ours, claimed.theirs, strict=True)])
        else:
            key = data.draw(st.sampled_from(self.keys))
            self._keep_leases([self._both(lambda store, _: store.acquire(key, holder, ttl=ttl))])

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), ttl=SECONDS, renew=st.booleans())
    def renew_or_release(self, data: st.DataObject, ttl: float, renew: bool) -> None:
        if renew:
            leases = data.draw(st.lists(st.sampled_from(self.leases[-5:]), max_size=3, unique_by=id))
            chosen = Twin([lease.ours for lease in leases], [lease.theirs for lease in leases])
            self._both(lambda store, some: store.renew(some, ttl=ttl), chosen)
        else:
            defer = data.draw(st.sampled_from((None, 0, 5)))
            lease = data.draw(st.sampled_from(self.leases[-5:]))
            self._both(lambda store, one: store.release(one, defer=defer), lease)

    @rule(seconds=st.sampled_from((1, 1, 5, 10, 60, -3, -100)))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # What is compared after each step

    @invariant()
    def everything_that_can_be_read_is_the_same(self) -> None:
        ours = self.run(everything(self.store, self.example, self.owners, self.keys))
        theirs = self.run(everything(self.memory, self.example, self.owners, self.keys))
        for name, answer in theirs.items():
            self._compare(Twin(ours[name], answer), name[1])
        for key in self.keys:
            if isinstance(theirs["load", key], Loaded):
                self._keep_guards(key, Twin(ours["load", key], theirs["load", key]))
                numbers = [event.seq for event in ours["events", key]]
                assert numbers == list(range(1, ours["load", key].header.last_seq + 1))

    def _keep_guards(self, key: ConversationKey, loaded: Twin) -> None:
        ours, theirs = loaded.ours, loaded.theirs
        _keep(self.revisions[key], Twin(ours.header.revision, theirs.header.revision))
        _keep(self.versions[key], Twin(ours.header.version, theirs.header.version))
        for name, record in ours.records.items():
            known = self.records.setdefault((key, *name), [])
            _keep(known, Twin(record.revision, theirs.records[name].revision))

    # Drawing

    def _last_seq(self, key: ConversationKey) -> int:
        header = self.run(outcome(self.memory.header(key)))
        return header.last_seq if isinstance(header, Header) else 0

    def _draw_guard(self, data: st.DataObject, known: list[Twin]) -> Twin:
        """Mostly the latest one, sometimes an old one or one that never was."""
        return data.draw(st.sampled_from([*known[-1:] * 3, *known[-2:-1], WRONG]))

    def _draw_ops(self, data: st.DataObject, key: ConversationKey) -> Twin:
        pairs: list[Twin] = []
        changed: set[object] = set()
        for kind in data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4)):
            op = self._draw_op(data, key, kind)
            touched = thing(op.ours)
            if touched is None or touched not in changed:
                changed.add(touched)
                pairs.append(op)
        # Records are dropped first: the other way round is refused before a store sees it.
        pairs.sort(key=lambda op: not isinstance(op.ours, DropRecords))
        return Twin([op.ours for op in pairs], [op.theirs for op in pairs])

    def _draw_op(self, data: st.DataObject, key: ConversationKey, kind: type[Op]) -> Twin:
        if kind is PutRecord:
            return self._draw_put(data, key)
        if kind is SetHeader:
            change = data.draw(set_header(self.agents))
            guarded = data.draw(st.integers(0, 3)) == 0
            when = self._draw_guard(data, self.versions[key]) if guarded else NOTHING
            return Twin(
                msgspec.structs.replace(change, when=when.ours),
                msgspec.structs.replace(change, when=when.theirs),
            )
        if kind is MoveCall:
            calls = self.run(outcome(self.memory.calls(key)))
            call = data.draw(st.sampled_from(calls)) if isinstance(calls, list) and calls else None
            move = data.draw(moves(call))
            return Twin(move, move)
        op = data.draw(OPS[kind])
        return Twin(op, op)

    def _draw_put(self, data: st.DataObject, key: ConversationKey) -> Twin:
        name = (data.draw(st.sampled_from(COLLECTIONS)), data.draw(st.sampled_from(RECORDS)))
        how = data.draw(st.sampled_from(("plain", "plain", "keep", "absent", "guarded")))
        when = Twin(0, 0) if how == "absent" else NOTHING
        if how == "guarded":
            when = self._draw_guard(data, self.records.get((key, *name), []))
        body = data.draw(st.sampled_from((b"", b"\x00\xff", b"text")))
        return Twin(
            PutRecord(*name, body, when.ours, how == "keep"),
            PutRecord(*name, body, when.theirs, how == "keep"),
        )

    # Doing the same on both sides

    def _commit(
        self,
        key: ConversationKey,
        ops: Twin,
        *,
        token: str | None = None,
        expect: int | None = None,
        fence: Twin = NOTHING,
        create: SetHeader | None = None,
        at: int | None = None,
    ) -> None:
        ours = Guards(token=token, expect=expect, fence=fence.ours, create=create, at=at)
        theirs = Guards(token=token, expect=expect, fence=fence.theirs, create=create, at=at)
        attempt = Attempt(key, ops, Twin(ours, theirs))
        if token is not None:
            self.attempts.append(attempt)
        self._try(attempt)

    def _try(self, attempt: Attempt) -> None:
        key, ops, guards = attempt.key, attempt.ops, attempt.guards

        def commit(store: Store, side: tuple[list[Op], Guards]) -> Awaitable[Commit]:
            return store.commit(key, side[0], **side[1])

        answer = self._both(commit, Twin((ops.ours, guards.ours), (ops.theirs, guards.theirs)))
        if isinstance(answer.ours, Commit):
            names = [(op.collection, op.key) for op in ops.ours if isinstance(op, PutRecord)]
            ours = zip(names, answer.ours.revisions, strict=True)
            theirs = zip(names, answer.theirs.revisions, strict=True)
            assert [self.numbers.ours.of(number, "record", key, name) for name, number in ours] == [
                self.numbers.theirs.of(number, "record", key, name) for name, number in theirs
            ]

    def _both(self, step: Callable[[Store, Any], Awaitable[Any]], given: Twin = NOTHING) -> Twin:
        note(f"      {given.ours!r}")
        answer = Twin(
            self.run(outcome(step(self.store, given.ours))),
            self.run(outcome(step(self.memory, given.theirs))),
        )
        self._compare(answer, None)
        return answer

    def _compare(self, answer: Twin, scope: object) -> None:
        ours, theirs = answer.ours, answer.theirs
        if isinstance(ours, HoldfastError) or isinstance(theirs, HoldfastError):
            assert type(ours) is type(theirs), f"{ours!r} is not {theirs!r}"
        else:
            assert self.numbers.ours.plain(ours, scope) == self.numbers.theirs.plain(theirs, scope)

    def _keep_leases(self, leases: list[Twin]) -> None:
        for lease in leases:
            if isinstance(lease.ours, Lease):
                assert lease.ours.fence > self.fences.get(lease.ours.key, 0)
                self.fences[lease.ours.key] = lease.ours.fence
                self.leases.append(lease)


def _keep(known: list[Twin], guard: Twin) -> None:
    if guard not in known:
        known.append(guard)
