"""
The conversations of an application, by the caller's scope.

A conversation of somebody else can't be named, so it is never there: each function raises the same error and
asks the store the same questions as for an id that nobody has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Literal
from uuid import uuid4

from holdfast.calls import annotated, card_notes
from holdfast.clock import Clock, microseconds, system_clock
from holdfast.conversations import branching, retention
from holdfast.conversations.accounts import spent_by, spent_by_all
from holdfast.conversations.conversation import Conversation
from holdfast.conversations.folding import VIEW, in_effect, read_marks, whole_log, without_row
from holdfast.conversations.info import (
    ARCHIVED,
    ConversationInfo,
    Listing,
    Purged,
    cursor_of,
    matches,
    place_of,
)
from holdfast.conversations.retention import PurgeProgress
from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model import JSON, Erased, Header, Hit, State, StatePatch, Summary, dumps
from holdfast.recording import appended, update_header
from holdfast.scopes import Scopes
from holdfast.store import ABSENT, SetHeader, Store
from holdfast.store.ops import check_duration, check_number
from holdfast.views import Logged, Page, Price, Spent, bound, page
from holdfast.views.display import CallContent

__all__ = ["Conversations"]

_PAGE = 200


class Conversations:
    """Everything that an application does with conversations, the caller's scope first."""

    def __init__(
        self,
        store: Store,
        scopes: Scopes,
        *,
        clock: Clock = system_clock,
        max_message: int | None = None,
    ) -> None:
        self._store, self._scopes, self._clock, self._max_message = store, scopes, clock, max_message

    async def create(
        self,
        scope: object,
        id: str | None = None,
        *,
        title: str = "",
        agent: str = "",
        metadata: Mapping[str, JSON] | None = None,
        settings: Mapping[str, JSON] | None = None,
    ) -> ConversationInfo:
        """
        A new conversation, under a new id if none is given.

        ``metadata`` is the application's own; ``settings`` say how the conversation is run.

        Raises:
            AlreadyExists: This scope has one of that id.
            InvalidKey: The id is not 1 to 1,024 bytes of UTF-8 without NUL.
            InvalidPayload: Metadata or settings are not JSON.
        """
        key = self._scopes.key(scope, uuid4().hex if id is None else id)
        create = SetHeader(
            title=title,
            agent=agent,
            metadata=dumps(dict(metadata or {})),
            settings=dumps(dict(settings or {})),
            when=ABSENT,
        )
        await self._store.commit(key, [], create=create)
        return await self._info(key)

    async def get(self, scope: object, id: str) -> ConversationInfo:
        """
        What is known of a conversation without reading its log.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        return await self._info(self._scopes.key(scope, id))

    async def get_or_none(self, scope: object, id: str) -> ConversationInfo | None:
        """The same, or None."""
        try:
            return await self.get(scope, id)
        except NotFound:
            return None

    async def list(
        self,
        scope: object,
        *,
        status: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
        newer_than: float | timedelta | None = None,
        older_than: float | timedelta | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> Listing:
        """
        Conversations by activity, newest first, without reading their events.

        Args:
            status: Only those with it. Without one, all but the archived.
            metadata: Only those that have these values under these keys.
            newer_than: Only those that were active in this time (seconds, or a timedelta).
            older_than: Only those that were not.
            before: The cursor that the listing before gave as ``older``.

        Raises:
            InvalidInput: A limit, duration or cursor that can't be one.
        """
        check_number("limit", limit, least=1)
        owner = self._scopes.owner(scope)
        since = 0 if newer_than is None else self._ago("newer_than", newer_than)
        place = None if before is None else place_of(before)
        if older_than is not None:
            # No id is smaller, so what was active in that very microsecond is left out.
            until = (self._ago("older_than", older_than), "\x01")
            place = until if place is None else min(place, until)
        wanted = dict(metadata or {})
        found: list[Header] = []
        size = min(limit + 1, _PAGE)
        while headers := await self._store.headers(owner, before=place, limit=size):
            for header in headers:
                if header.activity <= since:
                    return Listing(tuple(map(ConversationInfo.of, found)))
                if not matches(header, status, wanted):
                    continue
                if len(found) == limit:
                    return Listing(tuple(map(ConversationInfo.of, found)), cursor_of(found[-1]))
                found.append(header)
            place, size = (headers[-1].activity, headers[-1].key.id), _PAGE
        return Listing(tuple(map(ConversationInfo.of, found)))

    async def rename(self, scope: object, id: str, title: str) -> ConversationInfo:
        """
        Give a conversation another title; the log says who did.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        key = self._scopes.key(scope, id)
        patch = StatePatch(title=title, actor=self._scopes.actor(scope))
        await self._store.commit(key, [SetHeader(title=title), appended(patch)])
        return await self._info(key)

    async def update_metadata(
        self,
        scope: object,
        id: str,
        set: Mapping[str, JSON] | None = None,
        *,
        unset: Iterable[str] = (),
        version: int | None = None,
    ) -> ConversationInfo:
        """
        Change some keys of the metadata; the others stay, also those that somebody else changes now.

        With ``version``, only if nothing was changed since it was read.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleHeader: The conversation does not have that version any more.
            InvalidPayload: A value is not JSON.
        """
        return await self._update("metadata", scope, id, set, unset, version)

    async def update_settings(
        self,
        scope: object,
        id: str,
        set: Mapping[str, JSON] | None = None,
        *,
        unset: Iterable[str] = (),
        version: int | None = None,
    ) -> ConversationInfo:
        """
        Change some of the settings, in the same way.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleHeader: The conversation does not have that version any more.
            InvalidPayload: A value is not JSON.
        """
        return await self._update("settings", scope, id, set, unset, version)

    async def archive(self, scope: object, id: str) -> ConversationInfo:
        """
        Leave a conversation out of lists. It stays readable, searchable and can go on.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        return await self._set_status(scope, id, ARCHIVED)

    async def unarchive(self, scope: object, id: str) -> ConversationInfo:
        """
        Put a conversation into lists again.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        return await self._set_status(scope, id, "idle")

    async def delete(self, scope: object, id: str) -> Erased:
        """
        Remove a conversation and all that belongs to it; how much that was.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        key = self._scopes.key(scope, id)
        erased = await self._store.delete(key)
        if not erased.conversations:
            raise NotFound(key)
        return erased

    async def erase(self, scope: object) -> Erased:
        """Remove everything of the scope's owner, and count it. Interrupted, it goes on when called again."""
        return await self._store.erase(self._scopes.owner(scope))

    async def fork(
        self, scope: object, id: str, *, at: int | None = None, new_id: str | None = None
    ) -> ConversationInfo:
        """
        A new conversation that starts with this one's events up to ``at``, or with all of them.

        It has no open calls, no open run and no queue; what it inherited does not count in its usage.

        Raises:
            NotFound: There is no such conversation for this scope.
            AlreadyExists: This scope has one of the new id.
            InvalidInput: The log ends before ``at``.
        """
        key = self._scopes.key(scope, id)
        new = ConversationKey(key.owner, uuid4().hex if new_id is None else new_id)
        return ConversationInfo.of(await branching.fork(self._store, key, new.id, at))

    async def rewind(self, scope: object, id: str, to: int, *, reason: str | None = None) -> ConversationInfo:
        """
        Undo everything after the event ``to``. The log keeps it; rows of it are marked.

        No call is open afterwards; those whose message stays keep their results.

        Raises:
            NotFound: There is no such conversation for this scope.
            InvalidInput: The log ends before ``to``.
            Busy: An agent works on it.
            SeqConflict: Something was appended meanwhile.
            StaleRecord: What a model sees was changed meanwhile.
        """
        key, actor = self._scopes.key(scope, id), self._scopes.actor(scope)
        await branching.rewind(self._store, key, to, actor=actor, reason=reason, clock=self._clock)
        return await self._info(key)

    async def search(
        self, scope: object, text: str, *, phrase: bool = False, limit: int = 20
    ) -> Sequence[Hit]:
        """What people saw in any conversation of this scope, by all words of ``text``, best first."""
        return await self._store.search(self._scopes.owner(scope), text, phrase=phrase, limit=limit)

    async def rows(self, scope: object, id: str, *, before: str | None = None, limit: int = 50) -> Page:
        """
        What people see, the newest page first; ``before`` is the cursor that the page before gave as ``older``.

        Raises:
            NotFound: There is no such conversation for this scope.
            InvalidInput: ``before`` is no cursor, or the limit is below 1.
        """
        key = self._scopes.key(scope, id)
        end, wanted = bound(before), max(limit, 1) + 1
        view = await self._store.records(key, VIEW[0], keys=(VIEW[1],))
        marks = read_marks(view[0] if view else None)
        while True:
            events = in_effect(await self._store.events(key, before=end, limit=wanted), marks)
            shown = page(events, (), marks, before=before, limit=limit)
            if len(shown.rows) == limit or shown.older is None:
                break
            # Not every event has a row: look further back for as many as were asked for.
            wanted *= 2
        cards = {c.call_id: c.status for row in shown.rows if isinstance(c := row.content, CallContent)}
        if not cards:
            return shown
        calls = await self._store.calls(key, call_ids=cards)
        # A call that came with its result, or that a fork inherited, may have no row: the log knows.
        open_cards = {call_id for call_id, status in cards.items() if status == "pending"}
        calls += await without_row(self._store, key, open_cards - {c.call_id for c in calls}, events[-1].seq)
        shown = page(events, calls, marks, before=before, limit=limit)
        notes = await card_notes(self._store, key, cards)
        return Page(tuple(annotated(row, notes) for row in shown.rows), shown.older)

    async def state(self, scope: object, id: str) -> State:
        """
        Todos, metadata and open waits of a conversation, without starting its agent.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        return (await self._open(scope, id)).state

    async def since_summary(self, scope: object, id: str) -> tuple[Summary | None, Sequence[Logged]]:
        """
        The latest summary, and every event after what it stands for; without one, the whole log.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        conversation = await self._open(scope, id)
        summary = conversation.summary
        after = 0 if summary is None else summary.to_seq
        key = self._scopes.key(scope, id)
        return summary, [e async for e in whole_log(self._store, key, after=after, until=conversation.seq)]

    async def usage(self, scope: object, id: str, *, prices: Mapping[str, Price] | None = None) -> Spent:
        """
        Tokens and cost of a conversation, by model and by turn. What it inherited by a fork does not count.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        return await spent_by(self._store, await self._store.header(self._scopes.key(scope, id)), prices)

    async def total_usage(self, scope: object, *, prices: Mapping[str, Price] | None = None) -> Spent:
        """Tokens and cost of all conversations of the scope's owner, by model. It reads every log."""
        return await spent_by_all(self._store, self._scopes.owner(scope), prices)

    async def purge(
        self,
        scope: object,
        *,
        older_than: float | timedelta,
        keep: int = 0,
        dry_run: bool = True,
        on_progress: Callable[[PurgeProgress], None] | None = None,
    ) -> Purged:
        """
        Remove conversations that were not active for this long (seconds, or a timedelta).

        A dry run unless told otherwise. The ``keep`` most active ones stay, and those that an agent works on.

        Raises:
            InvalidInput: A duration or number that can't be one.
        """
        owner, before = self._scopes.owner(scope), self._ago("older_than", older_than)
        return await retention.purge(
            self._store, owner, before=before, keep=keep, dry_run=dry_run, on_progress=on_progress
        )

    async def _open(self, scope: object, id: str) -> Conversation:
        key = self._scopes.key(scope, id)
        conversation = Conversation(self._store, key, max_message=self._max_message)
        await conversation.refresh()
        if conversation.info is None:
            raise NotFound(key)
        return conversation

    async def _info(self, key: ConversationKey) -> ConversationInfo:
        return ConversationInfo.of(await self._store.header(key))

    async def _update(
        self,
        field: Literal["metadata", "settings"],
        scope: object,
        id: str,
        set: Mapping[str, JSON] | None,
        unset: Iterable[str],
        version: int | None,
    ) -> ConversationInfo:
        new, gone = dict(set or {}), frozenset(unset)

        def change(old: dict[str, JSON]) -> dict[str, JSON]:
            return {name: value for name, value in {**old, **new}.items() if name not in gone}

        key = self._scopes.key(scope, id)
        return ConversationInfo.of(await update_header(self._store, key, field, change, version=version))

    async def _set_status(self, scope: object, id: str, status: str) -> ConversationInfo:
        key = self._scopes.key(scope, id)
        await self._store.commit(key, [SetHeader(status=status)])
        return await self._info(key)

    def _ago(self, field: str, duration: float | timedelta) -> int:
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
        check_duration(field, seconds, zero=True)
        return max(0, self._clock() - microseconds(seconds))
