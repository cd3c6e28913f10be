"""
Writing a group of commits.

A group is one transaction of two round trips. The first locks the conversations, in the order of
their places, and reads what the checks need: nobody else can change it until the end. The second
writes everything and commits. A single append that no check can refuse is one round trip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from holdfast.clock import Clock
from holdfast.errors import HoldfastError, StoreError
from holdfast.model.records import OPEN, Call, Commit
from holdfast.store.change import Change
from holdfast.store.mysql.driver import BEGIN, COMMIT, Again, Pool, Session
from holdfast.store.mysql.faults import DUPLICATE, code_of
from holdfast.store.mysql.heads import LockedHead, brief_head, is_brief, new_head, whole_head
from holdfast.store.mysql.literals import Table, written
from holdfast.store.search import locate
from holdfast.store.sql import parts
from holdfast.store.sql.database import Row, digest, split
from holdfast.store.sql.decide import Plan, Seen, Wanted, check, first_result, plan
from holdfast.store.sql.groups import Outcome, each_alone_if_not_together
from holdfast.store.sql.statements import Statement

_LOOKS = {
    "look_token": ("place", "token"),
    "look_calls": ("place", "call_id"),
    "look_awake": ("place",),
    "look_records": ("place", "collection", "name"),
    "look_ids": ("place", "id"),
    "look_events": ("place", "seq"),
}


class Kernel:
    """``unindexed`` collects the conversations that got texts which search does not know yet."""

    def __init__(self, queries: SimpleNamespace, clock: Clock | None) -> None:
        self.unindexed: set[int] = set()
        self._q = queries
        self._clock = clock

    def now(self) -> int | None:
        """The test's time; None is the server's."""
        return None if self._clock is None else self._clock()

    async def append(self, pool: Pool, change: Change) -> Commit | None:
        """Append one plain event; None if the conversation was not there, or not as it must be."""
        [op] = change.net.appends
        fenced, fence = (None, None) if change.fence is None else split(change.fence)
        values: dict[str, Any] = {
            "place": digest(change.key.owner, change.key.id),
            "type": op.type,
            "data": op.data,
            "search": locate(op.text, op.data) if op.text else None,
            "expect": change.expect,
            "fenced_pk": fenced,
            "fence": fence,
            "now": self.now(),
        }
        statements = (self._q.append_head, self._q.append_event, self._q.appended)
        _, head, _, found, _ = await pool.write(BEGIN, *(written(s, **values) for s in statements), COMMIT)
        if not head.affected_rows:
            return None
        [(pk, last_seq, at)] = found.rows
        if op.text:
            self.unindexed.add(pk)
        return Commit((last_seq,), (), last_seq - 1, last_seq, at)

    async def write(self, pool: Pool, changes: Sequence[Change]) -> list[Outcome]:
        """Decide and write commits of different conversations."""
        return await each_alone_if_not_together(partial(self._write, pool), changes)

    async def _write(self, pool: Pool, changes: Sequence[Change]) -> list[Outcome]:
        return await pool.transaction(partial(self.write_within, changes=changes))

    async def write_within(
        self, session: Session, changes: Sequence[Change], *, all_or_none: bool = False
    ) -> list[Outcome]:
        """Decide and write commits as the last part of a transaction, and commit it."""
        looked = await self._look(session, changes)
        outcomes = [_refusal(change, seen) for change, seen in zip(changes, looked, strict=True)]
        if all_or_none and (refused := next((o for o in outcomes if isinstance(o, Exception)), None)):
            raise refused
        left = [i for i, outcome in enumerate(outcomes) if outcome is None]
        created = [(changes[i], looked[i]) for i in left if looked[i].head is None]
        heads = await self._create(session, created)
        plans: dict[int, Plan] = {}
        for i in left:
            head = looked[i].head or heads[changes[i].key]
            plans[i] = plan(changes[i], looked[i], head)
        await session.finish(*self._statements(list(plans.values())))
        self.unindexed.update(p.head.pk for p in plans.values() if p.first_text is not None)
        return [plans[i].commit if outcome is None else outcome for i, outcome in enumerate(outcomes)]

    async def _look(self, session: Session, changes: Sequence[Change]) -> list[Seen]:
        places = {digest(change.key.owner, change.key.id): change for change in changes}
        wanted = _wanted(places)
        names = [name for name, rows in wanted.items() if rows]
        locked, now, *others = await session.run(
            written(self._q.look, places=list(places)),
            written(self._q.now, now=self.now()),
            *(written(getattr(self._q, name), given=Table(_LOOKS[name], wanted[name])) for name in names),
        )
        seen = {place: Seen(now=now.rows[0][0]) for place in places}
        by_pk: dict[int, tuple[Seen, Change]] = {}
        for place, *columns in locked.rows:
            head = LockedHead(*columns)
            seen[place].head = head
            by_pk[head.pk] = seen[place], places[place]
        for name, result in zip(names, others, strict=True):
            for pk, *row in result.rows:
                # One that was made after the others were locked is not ours to look at.
                if pk in by_pk:
                    _note(*by_pk[pk], name, row)
        return list(seen.values())

    async def _create(
        self, session: Session, created: Sequence[tuple[Change, Seen]]
    ) -> dict[Any, LockedHead]:
        """Make the rows of conversations that are not there, so that they have their numbers."""
        ordered = sorted(created, key=lambda each: digest(each[0].key.owner, each[0].key.id))
        try:
            made = await session.run(
                *(
                    written(
                        self._q.create,
                        place=digest(change.key.owner, change.key.id),
                        owner=change.key.owner,
                        id=change.key.id,
                        now=change.time(seen.now),
                    )
                    for change, seen in ordered
                )
            )
        except StoreError as exc:
            if code_of(exc) == DUPLICATE:
                raise Again from exc
            raise
        return {
            change.key: new_head(change, result.insert_id, seen.now)
            for (change, seen), result in zip(ordered, made, strict=True)
        }

    def _statements(self, plans: Sequence[Plan]) -> Iterator[bytes]:
        """All that a group writes: one statement for each kind of row, and one for each thing that is removed."""
        q = self._q

        def rows(statement: Statement, values: list[tuple[Any, ...]]) -> Iterator[bytes]:
            if values:
                yield written(statement, rows=values)

        brief, whole = [p for p in plans if is_brief(p)], [p for p in plans if not is_brief(p)]
        yield from rows(q.write_heads, [brief_head(p, p.head) for p in brief])  # type: ignore[arg-type]
        yield from rows(q.write_whole_heads, [whole_head(p, p.head) for p in whole])  # type: ignore[arg-type]
        yield from rows(q.create_profiles, [_new_profile(p) for p in plans if p.creates])
        yield from rows(q.write_events, [row for p in plans for row in parts.event_rows(p)])
        yield from rows(q.write_calls, [row for p in plans for row in _calls(p)])
        for p in plans:
            if not p.creates:
                for pk, title, metadata, settings in parts.profile_rows(p):
                    profile = {"title": title, "metadata": metadata, "settings": settings}
                    yield written(q.write_profile, pk=pk, **profile)
            for pk, collection, first, until in parts.drop_rows(p):
                yield written(q.write_drop, pk=pk, collection=collection, first=first, until=until)
            for pk, mark, ref in parts.untag_rows(p):
                yield written(q.write_untag, pk=pk, mark=mark, ref=ref)
            for pk, seq, data in parts.redacted_rows(p):
                yield written(q.write_tombstone, pk=pk, seq=seq, data=data)
                yield written(q.unindex_bits, pk=pk, seq=seq)
                yield written(q.unindex_words, pk=pk, seq=seq)
        yield from rows(q.write_records, [(*row, p.commits) for p in plans for row in parts.put_rows(p)])
        yield from rows(q.write_tags, [row for p in plans for row in parts.tag_rows(p)])
        yield from rows(q.write_tokens, [row for p in plans for row in parts.token_rows(p)])


def _wanted(places: dict[bytes, Change]) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _LOOKS}
    for place, change in places.items():
        wanted = Wanted.of(change)
        found["look_calls"] += [(place, call_id) for call_id in wanted.calls]
        found["look_records"] += [(place, *name) for name in wanted.records]
        found["look_ids"] += [(place, id) for id in wanted.ids]
        found["look_events"] += [(place, seq) for seq in wanted.redacted]
        if wanted.awake:
            found["look_awake"].append((place,))
        if change.token is not None:
            found["look_token"].append((place, change.token))
    return found


def _note(seen: Seen, change: Change, name: str, row: Row) -> None:
    match name:
        case "look_token":
            seen.token = (row[0], row[1])
        case "look_calls":
            seen.calls[row[0]] = Call(change.key, *row)
        case "look_awake":
            seen.awake.append(row[0])
        case "look_records":
            seen.records[row[0], row[1]] = row[2]
        case "look_ids":
            seen.ids[row[0]] = row[1]
        case "look_events":
            seen.events[row[0]] = (row[1], row[2])


def _refusal(change: Change, seen: Seen) -> Outcome | None:
    """Why a commit is not written: it was before, or a check says no."""
    try:
        if first := first_result(change, seen):
            return first
        check(change, seen)
    except HoldfastError as exc:
        return exc
    return None


def _new_profile(p: Plan) -> tuple[Any, ...]:
    fields = ("title", "metadata", "settings")
    return (p.head.pk, *(parts.new_field(p.change, name) for name in fields))


def _calls(p: Plan) -> Iterator[tuple[Any, ...]]:
    """New calls and moved ones, in one form; of the latter, only what a move changes is taken."""
    for place, call in enumerate((*p.opened, *p.moved)):
        what = (call.call_id, call.name, call.status, call.executor, call.step, call.data)
        open_at = call.opened_at if call.status in OPEN else None
        when = (call.opened_at, call.expires_at, open_at)
        yield p.head.pk, call.key.owner, *what, *when, p.commits, place
