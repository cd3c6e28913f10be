"""The steps of deleting and forking whole conversations on MySQL."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec

from holdfast.errors import AlreadyExists, NotFound, StaleHeader, StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import Erased
from holdfast.store.change import Change
from holdfast.store.mysql.driver import BEGIN, COMMIT, Pool, Session
from holdfast.store.mysql.faults import DUPLICATE, code_of
from holdfast.store.mysql.kernel import Kernel
from holdfast.store.mysql.literals import written
from holdfast.store.rules import guard
from holdfast.store.sql.database import digest
from holdfast.store.sql.whole import HIDDEN_FOR, Fork, fork_point

_A_SLICE = 1000


class MySQLSlices:
    """Deletes and forks, step by step. Keeps the contract of ``Slices``."""

    def __init__(self, pool: Pool, kernel: Kernel, queries: SimpleNamespace) -> None:
        self._pool = pool
        self._fetch = pool.fetch
        self._kernel = kernel
        self._q = queries

    async def hide(self, key: ConversationKey, when: int | None) -> tuple[int, Erased] | None:
        place = digest(key.owner, key.id)

        async def work(session: Session) -> tuple[int, Erased] | None:
            [locked] = await session.run(written(self._q.look, places=[place]))
            if not locked.rows:
                return None
            _, pk, last_seq, commits, *_ = locked.rows[0]
            revision = guard(pk, commits)
            if when not in (None, revision):
                raise StaleHeader(key, expected=when or 0, actual=revision)
            _, counts, _ = await session.finish(written(self._q.hide, pk=pk), written(self._q.counts, pk=pk))
            return pk, Erased(1, last_seq, *counts.rows[0])

        return await self._pool.transaction(work)

    async def hidden(self) -> list[int]:
        _, found = await self._pool.write(
            written(self._q.abandon, now=self._kernel.now()), written(self._q.hidden)
        )
        return [row[0] for row in found.rows]

    async def remove_slice(self, pk: int) -> bool:
        q = self._q
        tables = (
            q.remove_events,
            q.remove_words,
            q.remove_records,
            q.remove_calls,
            q.remove_tags,
            q.remove_tokens,
        )
        gone = await self._pool.write(*(written(statement, pk=pk) for statement in tables))
        more = any(result.affected_rows == _A_SLICE for result in gone)
        if not more:
            await self._pool.write(written(q.remove_profile, pk=pk), written(q.remove_head, pk=pk))
        return more

    async def begin_fork(self, key: ConversationKey, new: ConversationKey, at: int | None) -> Fork:
        rows = await self._fetch(self._q.fork_source, place=digest(key.owner, key.id))
        if not rows:
            raise NotFound(key)
        [(source, last_seq, redactions)] = rows
        at = fork_point(key, at, last_seq)
        if await self._fetch(self._q.exists, place=digest(new.owner, new.id)):
            raise AlreadyExists(new)
        values = {"id": key.id, "source": source, "at": at, "now": self._kernel.now()}
        begin = written(self._q.fork_begin, **values, hidden_for=HIDDEN_FOR)
        _, made, profile, _ = await self._pool.write(
            BEGIN, begin, written(self._q.fork_profile, **values), COMMIT
        )
        if not made.affected_rows or not profile.affected_rows:
            raise NotFound(key)
        return Fork(made.insert_id, source, at, redactions)

    async def fork_slice(self, fork: Fork, until: int) -> None:
        values = {"pk": fork.pk, "source": fork.source, "after": fork.copied, "until": until}
        alive = written(self._q.fork_alive, pk=fork.pk, hidden_for=HIDDEN_FOR, now=self._kernel.now())
        await self._pool.write(BEGIN, alive, written(self._q.fork_slice, **values), COMMIT)

    async def reveal(
        self, fork: Fork, key: ConversationKey, change: Change, collections: frozenset[str]
    ) -> bool:
        new, q = change.key, self._q

        async def work(session: Session) -> bool:
            [source] = await session.run(
                written(q.fork_lock, source=fork.source, place=digest(key.owner, key.id))
            )
            if not source.rows:
                raise NotFound(key)
            if source.rows[0][0] != fork.redactions:
                return False
            named = {"owner": new.owner, "id": new.id, "place": digest(new.owner, new.id)}
            # Without a sign of life for long, it was taken for a crashed one and is being removed.
            [revealed] = await session.run(
                written(q.fork_reveal, pk=fork.pk, now=self._kernel.now(), **named)
            )
            if not revealed.affected_rows:
                return False
            await session.run(
                written(q.fork_records, pk=fork.pk, source=fork.source, collections=list(collections))
            )
            ops = msgspec.structs.replace(change, create=None)
            await self._kernel.write_within(session, [ops], all_or_none=True)
            return True

        try:
            revealed = await self._pool.transaction(work)
        except StoreError as exc:
            if code_of(exc) == DUPLICATE:
                raise AlreadyExists(new) from None
            raise
        if revealed:
            self._kernel.unindexed.add(fork.pk)
        return revealed
