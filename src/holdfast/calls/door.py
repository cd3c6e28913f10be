"""
Tool calls from the outside: started, ended, made to wait, answered, given up.

Each function is one commit of the call's move and of the event that says so, so log and row can't disagree.
Of any number of callers that race, one wins; the others get ``StaleCall`` and have changed nothing. Which
moves there are is the table of ``holdfast.model.records.MOVES``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from holdfast.calls.cards import CARDS
from holdfast.calls.results import result_of
from holdfast.errors import InvalidInput, StaleCall, StaleRecord
from holdfast.ids import ConversationKey, check_name
from holdfast.model import (
    JSON,
    OPEN,
    Call,
    CallStatus,
    Decision,
    Failure,
    Input,
    Outcome,
    Payload,
    Question,
    Resolution,
    Suspension,
    SuspensionKind,
    Text,
    ToolResult,
    ToolStarted,
    args_hash,
    dumps,
    loads,
)
from holdfast.recording import CallFacts, facts_of, recorded
from holdfast.scopes import Scopes
from holdfast.store import ABSENT, MoveCall, Op, PutRecord, Store, Wake

__all__ = ["Answer", "Calls"]

Answer = Literal["approve", "edit", "reject", "answer"]
"""What a person can say to a call that waits."""

_ALLOWED: dict[SuspensionKind, tuple[Decision, ...]] = {
    "approval": ("approve", "edit", "reject"),
    "question": ("answer", "reject"),
    "client": ("reject",),
    "child": ("reject",),
}
_FINAL_OF: dict[Outcome, CallStatus] = {
    "ok": "completed",
    "error": "failed",
    "rejected": "failed",
    "unknown": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}
_RUNS = frozenset[CallStatus](("pending", "executing", "detached"))
_WAITS = frozenset[CallStatus](("interrupted",))
_TRIES = 50


class Calls:
    """The tool calls of a scope's conversations. A call that is not there is as stale as one that moved on."""

    def __init__(self, store: Store, scopes: Scopes, *, max_message: int | None = None) -> None:
        self._store, self._scopes, self._max_message = store, scopes, max_message

    async def get(self, scope: object, id: str, call_id: str) -> Call | None:
        """
        One call and where it stands, or None.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        return await self._find(self._scopes.key(scope, id), call_id)

    async def list(
        self, scope: object, id: str, *, status: Collection[CallStatus] | None = None
    ) -> Sequence[Call]:
        """
        The calls of a conversation in the order they were opened.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        return await self._store.calls(self._scopes.key(scope, id), status=status)

    async def waiting(self, scope: object, *, limit: int = 100) -> Sequence[Call]:
        """All calls that wait for somebody, in any conversation of this scope, oldest first."""
        return await self._store.open_calls(self._scopes.owner(scope), status=_WAITS, limit=limit)

    async def mark_executing(
        self,
        scope: object,
        id: str,
        call_id: str,
        *,
        step: int | None = None,
        expires_in: float | None = None,
    ) -> None:
        """
        A pending call begins, durably before its effect does.

        With ``step``, a client takes a call that waits for it; ``expires_in`` is the time it has then.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: It is not pending, or does not wait at that step.
        """
        key, actor = self._scopes.key(scope, id), self._scopes.actor(scope)
        started = ToolStarted(call_id, step=step, actor=actor)
        when: frozenset[CallStatus] = frozenset(("pending",) if step is None else ("interrupted",))
        move = MoveCall(call_id, "executing", when, step, expires_in=expires_in)
        await self._commit(key, [started], move, wakes=step is not None)

    async def complete(
        self, scope: object, id: str, call_id: str, result: object = None, *, artifact: JSON = None
    ) -> None:
        """
        A call succeeded. ``result`` is text, parts, or any value; ``artifact`` is for programs and people.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: It is not pending, executing or detached.
            MessageTooLarge: The result has more bytes than the application takes.
        """
        await self._end(self._scopes.key(scope, id), call_id, result_of(call_id, "ok", result, artifact))

    async def fail(
        self, scope: object, id: str, call_id: str, message: str, *, code: str = "error", detail: str = ""
    ) -> None:
        """
        A call failed. ``message`` is for the model and for people, ``detail`` for whoever has to fix it.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: It is not pending, executing or detached.
        """
        failure = Failure(code, message, detail or None)
        await self._end(self._scopes.key(scope, id), call_id, ToolResult(call_id, "error", (), failure))

    async def cancel(self, scope: object, id: str, call_id: str, *, reason: str = "") -> None:
        """
        Give an open call up, whatever it waits for.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: It is final already.
        """
        key = self._scopes.key(scope, id)
        parts = (Text(reason),) if reason else ()
        await self._end(key, call_id, ToolResult(call_id, "cancelled", parts), when=OPEN)

    async def finish(self, scope: object, id: str, result: ToolResult) -> None:
        """
        End an open call with a result that is made already, whatever it was doing.

        Raises:
            InvalidInput: The result is only a placeholder.
            NotFound: There is no such conversation for this scope.
            StaleCall: It is final already.
            MessageTooLarge: The result has more bytes than the application takes.
        """
        if result.outcome == "detached":
            raise InvalidInput("a placeholder ends no call")
        await self._end(self._scopes.key(scope, id), result.call_id, result, when=OPEN)

    async def interrupt(
        self,
        scope: object,
        id: str,
        call_id: str,
        *,
        kind: SuspensionKind = "approval",
        prompt: str | None = None,
        question: Question | None = None,
        decisions: Sequence[Decision] = (),
        expires_in: float | None = None,
        child: str | None = None,
    ) -> Suspension:
        """
        A call waits for a person, a client or a sub-agent from now on.

        Show the suspension to whoever answers: its ``step`` and ``args_hash`` say what is answered.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: It is neither pending nor executing.
        """
        key = self._scopes.key(scope, id)
        call = await self._one(key, call_id, frozenset(("pending", "executing")))
        facts = facts_of(call)
        shown = None if facts.effective_args is None else args_hash(facts.effective_args)
        wait = Suspension(
            call_id, call.step + 1, kind, shown, prompt, question, tuple(decisions), expires_in, child
        )
        data = msgspec.structs.replace(facts, wait=wait).to_bytes()
        move = MoveCall(call_id, "interrupted", frozenset((call.status,)), call.step, data, expires_in)
        await self._commit(key, [wait], move)
        return wait

    async def record_decision(
        self,
        scope: object,
        id: str,
        call_id: str,
        decision: Answer,
        *,
        step: int,
        args_hash: str | None = None,
        args: JSON = None,
        answer: JSON = None,
        reason: str | None = None,
    ) -> Resolution:
        """
        A person answers a call that waits: it may be made (``approve``, ``edit``, ``answer``) or not.

        ``step`` and ``args_hash`` are those of the suspension that the person saw, so a second click
        can't answer the next question.

        Raises:
            InvalidInput: The wait does not take this decision, or an edit has no ``args``.
            NotFound: There is no such conversation for this scope.
            StaleCall: It does not wait at that step, was shown with other arguments, or its time is over.
        """
        key = self._scopes.key(scope, id)
        call = await self._one(key, call_id, frozenset(("interrupted",)), step)
        facts = facts_of(call)
        _check_allowed(facts, decision)
        if decision == "edit" and args is None:
            raise InvalidInput("an edit has the new arguments as args")
        if facts.wait is not None and args_hash not in (None, facts.wait.args_hash):
            raise StaleCall(key, call_id)
        said = Resolution(
            call_id,
            step,
            decision,
            args_hash,
            args if decision == "edit" else None,
            answer,
            reason,
            self._scopes.actor(scope),
        )
        if decision == "reject":
            move = MoveCall(call_id, "failed", frozenset(("interrupted",)), step)
            await self._commit(key, [said, ToolResult(call_id, "rejected")], move, wakes=True)
            return said
        facts = msgspec.structs.replace(
            facts, wait=None, decision=decision, edited=said.args, answer=answer, actor=said.actor
        )
        move = MoveCall(call_id, "pending", frozenset(("interrupted",)), step, facts.to_bytes())
        await self._commit(key, [said], move, wakes=True)
        return said

    async def resolve(
        self,
        scope: object,
        id: str,
        call_id: str,
        result: object = None,
        *,
        step: int,
        failure: Failure | None = None,
    ) -> None:
        """
        The result of a call that somebody else made: a client, a sub-agent, a person.

        Raises:
            InvalidInput: The wait names the decisions that it takes, and a result is not one of them.
            NotFound: There is no such conversation for this scope.
            StaleCall: It does not wait at that step, or its time is over.
            MessageTooLarge: The result has more bytes than the application takes.
        """
        key = self._scopes.key(scope, id)
        call = await self._one(key, call_id, frozenset(("interrupted", "executing")), step)
        facts = facts_of(call)
        if call.status == "executing" and (facts.wait is None or facts.wait.kind != "client"):
            raise StaleCall(key, call_id)
        if facts.wait is not None and facts.wait.decisions:
            _check_allowed(facts, "result")
        outcome: Outcome = "ok" if failure is None else "error"
        answer = result_of(call_id, outcome, result, failure=failure)
        said = Resolution(call_id, step, "result", actor=self._scopes.actor(scope))
        move = MoveCall(call_id, _FINAL_OF[outcome], frozenset((call.status,)), step)
        await self._commit(key, [said, answer], move, wakes=True)

    async def schedule_expiry(self, scope: object, id: str, call_id: str, seconds: float) -> None:
        """
        Let a call that waits or executes expire; an expiry that it has is replaced.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: It neither waits nor executes, or its time is over.
        """
        await self._reschedule(self._scopes.key(scope, id), call_id, seconds)

    async def cancel_expiry(self, scope: object, id: str, call_id: str) -> None:
        """
        Let a call wait for ever.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: It neither waits nor executes, or its time is over.
        """
        await self._reschedule(self._scopes.key(scope, id), call_id, None)

    async def annotate(self, scope: object, id: str, call_id: str, metadata: Mapping[str, JSON]) -> None:
        """
        Add to what people see on a call's card: a text, a progress, a link. Keys that are not named stay.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: There is no such call.
            InvalidPayload: A value is not JSON.
        """
        key = self._scopes.key(scope, id)
        if await self._find(key, call_id) is None:
            raise StaleCall(key, call_id)
        for left in reversed(range(_TRIES)):
            old = await self._store.records(key, CARDS, keys=(call_id,))
            data = dumps({**(loads(old[0].data) if old else {}), **metadata})
            put = PutRecord(CARDS, call_id, data, when=old[0].revision if old else ABSENT)
            try:
                await self._store.commit(key, [put])
            except StaleRecord:
                if not left:
                    raise
            else:
                return

    async def _reschedule(self, key: ConversationKey, call_id: str, seconds: float | None) -> None:
        call = await self._one(key, call_id, frozenset(("interrupted", "executing")))
        same = MoveCall(call_id, call.status, frozenset((call.status,)), call.step, expires_in=seconds)
        await self._store.commit(key, [same])

    async def _end(
        self, key: ConversationKey, call_id: str, result: ToolResult, *, when: frozenset[CallStatus] = _RUNS
    ) -> None:
        call = await self._one(key, call_id, when)
        move = MoveCall(call_id, _FINAL_OF[result.outcome], frozenset((call.status,)), call.step)
        if call.status != "detached":
            await self._commit(key, [result], move)
            return
        # Its one result is the placeholder that the model read already: this comes as news.
        parts = result.parts or ((Text(result.failure.message),) if result.failure is not None else ())
        news = Input(parts, "task", call_id=call_id, outcome=result.outcome)
        await self._commit(key, [news], move, wakes=True)

    async def _commit(
        self, key: ConversationKey, payloads: Sequence[Payload], move: MoveCall, *, wakes: bool = False
    ) -> None:
        ops: list[Op] = [move]
        for payload in payloads:
            ops += recorded(payload, max_message=self._max_message)[1]
        if wakes:
            ops.append(Wake())
        await self._store.commit(key, ops)

    async def _find(self, key: ConversationKey, call_id: str) -> Call | None:
        check_name("call id", call_id)
        found = await self._store.calls(key, call_ids=(call_id,))
        return found[0] if found else None

    async def _one(
        self, key: ConversationKey, call_id: str, when: Collection[CallStatus], step: int | None = None
    ) -> Call:
        call = await self._find(key, call_id)
        if call is None or call.status not in when or step not in (None, call.step):
            raise StaleCall(key, call_id)
        return call


def _check_allowed(facts: CallFacts, decision: Decision) -> None:
    if facts.wait is None:
        return
    allowed = facts.wait.decisions or _ALLOWED[facts.wait.kind]
    if decision not in allowed:
        raise InvalidInput(f"this call takes {', '.join(allowed)}, not {decision}")
