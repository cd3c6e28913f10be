"""
Writing a group of commits.

Appends that no check can refuse are one statement, which locks the conversations in order and
numbers the events by what it finds there. Every other commit is decided by what one statement read,
and written by a second one if the conversation is still as it was read. Each statement is a
transaction of its own: nothing is locked while this process thinks, and a process that dies or
stalls in between holds up nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

from holdfast.clock import Clock
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.model.records import Call, Commit
from holdfast.store.change import Change
from holdfast.store.postgres.columns import Columns, changed_heads, columns, new_heads, parts
from holdfast.store.postgres.schema import numbered
from holdfast.store.search import locate
from holdfast.store.sql.database import Database, split
from holdfast.store.sql.decide import Head, Plan, Seen, Wanted, check, first_result, plan
from holdfast.store.sql.groups import Outcome, each_alone_if_not_together
from holdfast.store.sql.statements import Statement

ATTEMPTS = 4


class Server(Database, Protocol):
    """A database that can also hold a transaction open."""

    def transaction(self) -> AbstractAsyncContextManager[Database]: ...


class Kernel:
    """
    The statements that write, put together for what a group needs.

    ``unindexed`` collects the conversations that got texts which search does not know yet.
    """

    def __init__(self, queries: SimpleNamespace, pieces: SimpleNamespace, clock: Clock | None) -> None:
        self.unindexed: set[int] = set()
        self._q = queries
        self._pieces = vars(pieces)
        self._clock = clock
        self._statements: dict[tuple[str, ...], Statement] = {}

    def now(self) -> int | None:
        """The test's time; None is the server's."""
        return None if self._clock is None else self._clock()

    def statement(self, names: Iterable[str]) -> Statement:
        """The statement that these pieces make."""
        key = tuple(names)
        if (found := self._statements.get(key)) is None:
            text = "\n".join(self._pieces[name] for name in key)
            found = self._statements[key] = Statement.of(text, numbered)
        return found

    # Appends that no check can refuse

    async def append(self, database: Database, changes: Sequence[Change]) -> list[Commit | Exception | None]:
        """Append plain commits; None for one whose conversation was not there, or not as it must be."""
        first = changes[0]
        if len(changes) == len(first.net.appends) == 1 and first.expect is None and first.fence is None:
            return [await self._append_one(database, first)]
        return await each_alone_if_not_together(partial(self._append_all, database), changes)

    async def _append_one(self, database: Database, change: Change) -> Commit | None:
        [op] = change.net.appends
        rows = await database.fetch(
            self._q.append,
            owner=change.key.owner,
            id=change.key.id,
            type=op.type,
            data=op.data,
            search=locate(op.text, op.data) if op.text else None,
            now=self.now(),
        )
        return self._appended(change, *rows[0]) if rows else None

    async def _append_all(self, database: Database, changes: Sequence[Change]) -> list[Commit | None]:
        heads = columns("owner id count text_at expect fenced_pk fence", map(_appended_to, changes))
        events = columns(
            "event_i place type data search",
            (
                (i, place, op.type, op.data, locate(op.text, op.data) if op.text else None)
                for i, change in enumerate(changes, 1)
                for place, op in enumerate(change.net.appends, 1)
            ),
        )
        done: list[Commit | None] = [None] * len(changes)
        for i, *row in await database.fetch(self._q.append_all, **heads, **events, now=self.now()):
            done[i - 1] = self._appended(changes[i - 1], *row)
        return done

    def _appended(self, change: Change, pk: int, last_seq: int, at: int) -> Commit:
        appends = change.net.appends
        before = last_seq - len(appends)
        if any(op.text for op in appends):
            self.unindexed.add(pk)
        return Commit(tuple(range(before + 1, last_seq + 1)), (), before, last_seq, at)

    # Commits of any kind

    async def write(self, server: Server, changes: Sequence[Change]) -> list[Outcome]:
        """
        Decide and write commits.

        Whoever lost the race for a conversation reads again. One that loses again and again locks it
        first.
        """
        outcomes: list[Outcome | None] = [None] * len(changes)
        for _ in range(ATTEMPTS):
            left = [i for i, outcome in enumerate(outcomes) if outcome is None]
            answers = await self.attempt(server, [changes[i] for i in left]) if left else []
            for i, answer in zip(left, answers, strict=True):
                outcomes[i] = answer
        return [
            outcome if outcome is not None else await self._write_locked(server, change)
            for change, outcome in zip(changes, outcomes, strict=True)
        ]

    async def _write_locked(self, server: Server, change: Change) -> Outcome:
        try:
            async with server.transaction() as locked:
                await locked.fetch(self._q.lock_head, owner=change.key.owner, id=change.key.id)
                return await self.write_once(locked, change)
        except Exception as exc:
            return exc

    async def write_once(self, database: Database, change: Change) -> Commit:
        """Write a commit inside a transaction. Raises what ``Store.commit`` does."""
        [answer] = await self.attempt(database, [change])
        if answer is None:
            raise StoreUnavailable(f"{change.key} is made and removed by others all the time; try again")
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def attempt(self, database: Database, changes: Sequence[Change]) -> list[Outcome | None]:
        """Read, decide and write once; None for a commit whose conversation was changed in between."""
        looked = await each_alone_if_not_together(partial(self._look, database), changes)
        decided = [_decided(change, seen) for change, seen in zip(changes, looked, strict=True)]
        plans = [each for each in decided if isinstance(each, Plan)]
        written: dict[int, Outcome | None] = {}
        for head, some in (
            ("apply", [each for each in plans if not each.creates]),
            ("create", [each for each in plans if each.creates]),
        ):
            if some:
                answers = await each_alone_if_not_together(partial(self._write, database, head), some)
                written |= {each.head.pk: answer for each, answer in zip(some, answers, strict=True)}
        return [written[each.head.pk] if isinstance(each, Plan) else each for each in decided]

    async def _write(self, database: Database, head: str, plans: Sequence[Plan]) -> list[Commit | None]:
        needed, values = parts(plans)
        if head == "apply":
            values |= changed_heads(plans)
        else:
            # The profile is made with the conversation.
            needed = [name for name in needed if name != "write_profile"]
            values |= new_heads(plans)
        rows = await database.fetch(self.statement([head, *needed, "written"]), **values)
        written = {row[0] for row in rows}
        self.unindexed |= {p.head.pk for p in plans if p.head.pk in written and p.first_text is not None}
        return [each.commit if each.head.pk in written else None for each in plans]

    async def _look(self, database: Database, changes: Sequence[Change]) -> list[Seen]:
        needed, values = _looked_for(changes)
        rows = await database.fetch(self.statement(["look", *needed]), **values, now=self.now())
        seen = [Seen() for _ in changes]
        for kind, i, names, numbers, bodies in rows:
            _note(seen[i - 1], changes[i - 1], kind, names, numbers, bodies)
        return seen


def _appended_to(change: Change) -> tuple[Any, ...]:
    appends = change.net.appends
    text_at = next((place for place, op in enumerate(appends, 1) if op.text), None)
    fenced = (None, None) if change.fence is None else split(change.fence)
    return change.key.owner, change.key.id, len(appends), text_at, change.expect, *fenced


def _decided(change: Change, seen: Seen | Exception) -> Plan | Outcome:
    if isinstance(seen, Exception):
        return seen
    try:
        if first := first_result(change, seen):
            return first
        check(change, seen)
    except HoldfastError as exc:
        return exc
    return plan(change, seen, seen.head or Head(seen.new_pk or 0, activity=change.time(seen.now)))


def _looked_for(changes: Sequence[Change]) -> tuple[list[str], Columns]:
    wanted = [(i, Wanted.of(change)) for i, change in enumerate(changes, 1)]
    heads = columns(
        "owner id token creates",
        ((c.key.owner, c.key.id, c.token, c.create is not None) for c in changes),
    )
    pieces = {
        "look_calls": columns("call_i call_id", ((i, call) for i, w in wanted for call in w.calls)),
        "look_awake": columns("awake_i", ((i,) for i, w in wanted if w.awake)),
        "look_records": columns(
            "record_i record_collection record_key", ((i, *name) for i, w in wanted for name in w.records)
        ),
        "look_ids": columns("id_i event_id", ((i, id) for i, w in wanted for id in w.ids)),
        "look_events": columns("redact_i redact_seq", ((i, seq) for i, w in wanted for seq in w.redacted)),
    }
    needed = [name for name, filled in pieces.items() if any(filled.values())]
    if any(change.token is not None for change in changes):
        needed.append("look_token")
    for filled in pieces.values():
        heads |= filled
    return needed, heads


def _note(
    seen: Seen, change: Change, kind: str, names: list[Any], numbers: list[Any], bodies: list[Any]
) -> None:
    match kind:
        case "head":
            seen.now, seen.new_pk, pk, last_seq, commits, version, activity, fences = numbers
            seen.head = (
                None if pk is None else Head(pk, last_seq, commits, version, activity, fences, names[0])
            )
        case "token":
            seen.token = (bodies[0], bodies[1])
        case "call":
            call_id, name, status, executor = names
            step, opened_at, expires_at = numbers
            seen.calls[call_id] = Call(
                change.key, call_id, name, status, executor, step, bodies[0], opened_at, expires_at
            )
        case "awake":
            seen.awake.append(names[0])
        case "record":
            seen.records[names[0], names[1]] = numbers[0]
        case "id":
            seen.ids[names[0]] = numbers[0]
        case "event":
            seen.events[numbers[0]] = (names[0], bodies[0])
