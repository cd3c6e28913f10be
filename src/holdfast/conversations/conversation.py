"""One conversation in the hands of a loop of one's own: restore it, mirror what is new, summarise."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Literal, Self, overload

import msgspec

from holdfast.clock import Clock, system_clock
from holdfast.conversations.folding import (
    VIEW,
    Folded,
    beside,
)
from holdfast.conversations.info import ConversationInfo
from holdfast.conversations.items import Format, check_format, payloads, written
from holdfast.conversations.known import Known
from holdfast.errors import Busy, InvalidInput, NotFound, SeqConflict, StaleCall, StaleRecord
from holdfast.ids import ConversationKey
from holdfast.model import (
    MEDIA,
    OPEN,
    CallStatus,
    Commit,
    Compaction,
    Input,
    Message,
    Outcome,
    Payload,
    Replacement,
    Rewrite,
    State,
    Summary,
    ToolResult,
    Usage,
    entry,
)
from holdfast.recording import opened, recorded
from holdfast.store import MoveCall, Op, PutRecord, SetHeader, Store
from holdfast.views import Logged, Turn
from holdfast.views.formats import (
    stored,
)
from holdfast.views.formats.common import Named

__all__ = ["Conversation", "Snapshot"]

_ENDS: dict[Outcome, CallStatus] = {"ok": "completed", "cancelled": "cancelled"}


class Snapshot(msgspec.Struct, frozen=True):
    """A conversation at one moment: what a model would get, and input that it was not given yet."""

    seq: int
    turns: tuple[Turn, ...]
    waiting: tuple[Input, ...]

    @classmethod
    def of(cls, known: Known) -> Self:
        """What is known of a conversation now."""
        log = {event.seq: event.payload for event in known.log}
        waiting = [log[seq] for seq in Folded(known.log).waiting_inputs]
        return cls(known.seq, known.transcript.turns, tuple(i for i in waiting if isinstance(i, Input)))


class Conversation:
    """
    A conversation that was opened: what a model gets of it, and the way to go on.

    It belongs to the caller that opened it and to one task at a time. Others may append to it meanwhile; what
    they appended is there after the next ``append`` or ``refresh``.
    """

    def __init__(
        self,
        store: Store,
        key: ConversationKey,
        *,
        max_message: int | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self._store, self._key, self._max_message, self._clock = store, key, max_message, clock
        self._format: Format | None = None
        self._media: dict[str, bytes] = {}
        self._known = Known()

    @property
    def id(self) -> str:
        """Its id."""
        return self._key.id

    @property
    def info(self) -> ConversationInfo | None:
        """What is known of it beside its log; None if nothing was ever appended."""
        return self._known.info

    @property
    def seq(self) -> int:
        """The seq of the last event that is known here; 0 if there is none."""
        return self._known.seq

    @property
    def state(self) -> State:
        """Todos, metadata and open waits."""
        return self._known.state.state

    @property
    def summary(self) -> Summary | None:
        """The summary that a model reads: of those that are not undone, the one that reaches furthest."""
        return self._known.summary

    @property
    def view(self) -> int:
        """
        The revision of what a model sees: it changes with each summary, rewind and rewrite, not with a message.

        It is what an audited ``ModelCall`` names as its ``summary``.
        """
        return self._known.view

    @overload
    def transcript(self, format: None = None) -> tuple[Turn, ...]: ...
    @overload
    def transcript(self, format: Literal["anthropic"]) -> tuple[str, list[dict[str, Any]]]: ...
    @overload
    def transcript(self, format: Literal["openai", "responses", "langchain"]) -> list[dict[str, Any]]: ...
    @overload
    def transcript(self, format: Format | None) -> Any: ...

    def transcript(self, format: Format | None = None) -> Any:
        """
        What a model gets: valid for every provider, whatever happened before.

        In a ``format`` it is what that SDK takes (``anthropic``: the system prompt and the messages);
        without one, the turns of ``holdfast.views``. A later ``append`` reads the same format.

        Raises:
            InvalidInput: There is no such format.
        """
        turns = self._known.transcript.turns
        if format is None:
            return turns
        self._format = check_format(format)
        # An id that repeats or that a provider would refuse is sent as another, and comes back in a result.
        sent = Named(turns)
        for turn in sent.turns:
            if isinstance(turn, Message) and turn.role == "assistant":
                for call, id in sent.calls(turn):
                    self._known.names.setdefault(id, call.call_id)
        return written(turns, format, self._media)

    async def append(self, *items: object, format: Format | None = None, token: str | None = None) -> Commit:
        """
        Add to the conversation, in one commit that is durable when it returns.

        An item is a reply or message of an SDK (as an object or as a dict), a text that the user said, or
        a payload of ``holdfast.model``. A tool call gets a row, and its result closes it. The conversation is
        made by its first append.

        Args:
            format: Whose messages these are; that of the last ``transcript`` if it is not given.
            token: Makes a repetition safe: a token that was used before appends nothing.

        Raises:
            InvalidInput: An item can't be read, or changes what a model sees (use ``summarise``).
            MessageTooLarge: An item has more bytes than the application takes.
            NotFound: The conversation was deleted meanwhile.
            Busy: An agent works on it, and would not see the message.
            StaleCall: A call whose result this is was answered, cancelled or expired meanwhile.
            TokenConflict: The token was used for something else.
        """
        given = self._known.named(payloads(items, format or self._format, token))
        if not given:
            raise InvalidInput("there is nothing to append")
        await self._check_free(given)
        said = self._said(given) if token is None else frozenset()
        try:
            return await self._commit(given, said, token)
        except StaleCall:
            # The rows of its calls may be there because the message is: then this is a repetition (L4).
            await self.refresh()
            if token is not None or said == (said := self._said(given)):
                raise
            return await self._commit(given, said, None)

    async def _commit(self, given: Sequence[Payload], said: frozenset[str], token: str | None) -> Commit:
        """Append these; of the messages that were ``said`` already nothing is changed again."""
        known = self._known
        repeated = {c.call_id for p in given if isinstance(p, Message) and p.id in said for c in p.calls}
        repeated &= known.answered
        kept: list[Payload] = []
        ops: list[Op] = []
        for payload in given:
            if not (isinstance(payload, ToolResult) and payload.call_id in repeated):
                payload, added = recorded(payload, max_message=self._max_message)
                kept.append(payload)
                ops += added
        new = [p for p in kept if not (isinstance(p, Message) and p.id in said)]
        changes, now_open = _call_changes(new, await self._with_rows(new), known.open)
        create = None if self.info is not None else SetHeader()
        commit = await self._store.commit(self._key, [*ops, *changes], token=token, create=create)
        for op in ops:
            if isinstance(op, PutRecord) and op.collection == MEDIA:
                self._media[op.key] = op.data
        follows = commit.seqs == tuple(range(known.seq + 1, known.seq + len(kept) + 1))
        if follows and known.info is not None and known is self._known:
            for seq, payload in zip(commit.seqs, kept, strict=True):
                known.apply(Logged(seq, commit.at, payload))
            known.open = now_open
        else:
            # It is new, somebody else was here, or this was said before.
            await self.refresh()
        return commit

    async def summarise(
        self,
        text: str,
        *,
        to_seq: int,
        from_seq: int | None = None,
        model: str | None = None,
        usage: Usage | None = None,
    ) -> Commit:
        """
        Let models read ``text`` instead of the events up to ``to_seq``. People still see those.

        What was appended since is not touched, so nothing that comes in meanwhile is lost. Without
        ``from_seq`` it begins after the system messages at the start.

        Raises:
            InvalidInput: There is no event ``to_seq``.
            NotFound: There is no such conversation any more.
            StaleRecord: What a model sees was changed meanwhile; decide again.
        """
        if type(to_seq) is not int or not 1 <= to_seq <= self.seq:
            raise InvalidInput(f"there is no event {to_seq!r} to summarise up to; the log ends at {self.seq}")
        first = self._known.after_system if from_seq is None else from_seq
        if not 1 <= first <= to_seq:
            raise InvalidInput(f"there is nothing to summarise from {first!r} up to {to_seq}")
        return await self._change_view(Compaction(self._known.view, first, to_seq, text, model, usage))

    async def rewrite(
        self,
        *items: object,
        from_seq: int = 1,
        to_seq: int | None = None,
        format: Format | None = None,
        reason: str | None = None,
    ) -> Commit:
        """
        Let models read these items instead of the events ``from_seq`` to ``to_seq``: by default, of all.

        The log keeps what was there, people still see it, and ``conversations.rewind`` brings it back. What is
        appended meanwhile is not touched.

        Raises:
            InvalidInput: There are no such events, or an item can't be read.
            MessageTooLarge: An item has more bytes than the application takes.
            NotFound: There is no such conversation any more.
            StaleRecord: What a model sees was changed meanwhile; decide again.
        """
        last = self.seq if to_seq is None else to_seq
        if type(last) is not int or type(from_seq) is not int or not 1 <= from_seq <= last <= self.seq:
            raise InvalidInput(f"there are no events {from_seq!r} to {last!r}; the log ends at {self.seq}")
        entries, media = [], list[Op]()
        for payload in self._known.named(payloads(items, format or self._format)):
            kept, ops = recorded(payload, max_message=self._max_message)
            entries.append(entry(kept))
            media += [op for op in ops if isinstance(op, PutRecord)]
        replacement = Replacement(from_seq, last, tuple(entries))
        return await self._change_view(Rewrite(self._known.view, (replacement,), reason), media)

    async def _change_view(self, change: Compaction | Rewrite, media: Sequence[Op] = ()) -> Commit:
        while True:
            known = self._known
            folded = Folded([*known.log, Logged(known.seq + 1, 0, change)])
            state = msgspec.structs.replace(self.state, seq=known.seq + 1)
            ops: list[Op] = [
                *media,
                *recorded(change, max_message=self._max_message)[1],
                *beside(tail=folded.tail, marks=known.marks, state=state, view=change.base),
            ]
            try:
                commit = await self._store.commit(self._key, ops, expect=known.seq)
            except SeqConflict:
                await self.refresh()
                if self._known.view != change.base:
                    raise StaleRecord(self._key, *VIEW) from None
            else:
                await self.refresh()
                return commit

    def snapshot(self) -> Snapshot:
        """What is known now: the transcript, and input that no model was given yet."""
        return Snapshot.of(self._known)

    async def refresh(self) -> None:
        """Read what others did since. A conversation that is gone is empty, and an append does not bring it back."""
        try:
            self._known = await Known.load(self._store, self._key)
        except NotFound:
            gone, self._known = self._known.info, Known()
            self._known.info = gone
            return
        missing = stored(self._known.transcript.turns) - self._media.keys()
        if missing:
            found = await self._store.records(self._key, MEDIA, keys=missing)
            self._media.update((record.key, record.data) for record in found)

    async def _check_free(self, payloads: Sequence[Payload]) -> None:
        # Only a conversation that belongs to an agent can be held by one: the others are not asked again.
        if self.info is None or not self.info.agent:
            return
        if any(isinstance(payload, Message) for payload in payloads):
            lease = (await self._store.header(self._key)).lease
            if lease is not None and lease.until > self._clock():
                raise Busy(self._key)

    def _said(self, payloads: Sequence[Payload]) -> frozenset[str]:
        """The messages among these that the log has already."""
        return frozenset(p.id for p in payloads if isinstance(p, Message) and p.id in self._known.messages)

    async def _with_rows(self, payloads: Sequence[Payload]) -> set[str]:
        """
        Those of the calls that results are for which have a row, open or not.

        It does not matter here which: an answer to one that is final is stale, and a repetition with its token
        must ask for the same.
        """
        own = {call.call_id for p in payloads if isinstance(p, Message) for call in p.calls}
        asked = {p.call_id for p in payloads if isinstance(p, ToolResult)} - own
        unknown = asked - self._known.open
        if not unknown or self.info is None:
            return asked & self._known.open
        found = await self._store.calls(self._key, call_ids=unknown)
        return (asked & self._known.open) | {call.call_id for call in found}


def _call_changes(
    payloads: Sequence[Payload], with_rows: Set[str], still_open: Set[str]
) -> tuple[list[Op], set[str]]:
    """
    What these do to the rows of calls, and which calls are open then. A commit changes a call once.

    A call whose result comes along is opened as completed. For one that failed already there is no row to open
    it as: the log says what became of it.
    """
    outcomes = {p.call_id: p.outcome for p in payloads if isinstance(p, ToolResult)}
    ops: list[Op] = []
    now_open = set(still_open)
    for call in (call for p in payloads if isinstance(p, Message) for call in opened(p)):
        outcome = outcomes.pop(call.call_id, "detached")
        if outcome == "ok":
            ops.append(msgspec.structs.replace(call, status="completed"))
        elif outcome == "detached":
            ops.append(call)
            if call.status in OPEN:
                now_open.add(call.call_id)
    for call_id, outcome in outcomes.items():
        if call_id not in with_rows:
            continue
        if outcome == "detached":
            ops.append(MoveCall(call_id, "executing", frozenset(("pending", "executing"))))
            continue
        ops.append(MoveCall(call_id, _ENDS.get(outcome, "failed"), frozenset(OPEN)))
        now_open.discard(call_id)
    return ops, now_open
