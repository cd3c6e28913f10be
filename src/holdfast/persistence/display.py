"""Rows for people in a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.calls import Calls, annotated, card_notes
from holdfast.errors import NotFound, StaleCall
from holdfast.ids import ConversationKey
from holdfast.model import OPEN, Call, Event, Failure, Input, Message, NoticeRow, Payload, ToolResult
from holdfast.persistence.behaviours import HookContext, SyntheticMessage, ToolInfo, ToolStatus
from holdfast.recording import appended, opened, recorded
from holdfast.scopes import Scopes
from holdfast.store import Store
from holdfast.views import Row, Turn, logged, rows
from holdfast.views.display import CallContent, row_content

__all__ = ["DisplayMessages"]

_PAGE = 200


class DisplayMessages:
    """
    ``DisplayMessagePersistence`` over a store, with both that it may do besides.

    Rows are what the log shows, so saving one is appending its event; what the log has already is not
    appended again.
    """

    def __init__(self, store: Store, scopes: Scopes, *, max_message: int | None = None) -> None:
        self._store, self._scopes, self._max_message = store, scopes, max_message
        self._calls = Calls(store, scopes, max_message=max_message)

    async def save_message(self, scope: Any, message: Turn, context: HookContext) -> Sequence[Row]:
        """
        Keep a message or a tool's result as rows.

        Raises:
            NotFound: There is no such conversation for this scope.
            StaleCall: The call whose result this is was ended otherwise meanwhile.
            MessageTooLarge: It has more bytes than the application takes.
        """
        key = self._scopes.key(scope, context.conversation_id)
        if isinstance(message, ToolResult):
            return await self._save_result(scope, key, message)
        _, ops = recorded(message, max_message=self._max_message)
        calls = opened(message)
        try:
            commit = await self._store.commit(key, [*ops, *calls])
        except StaleCall:
            # The log has it: its calls are there.
            commit = await self._store.commit(key, ops)
        return await self._rows(key, commit.seqs[-1], [call.call_id for call in calls])

    async def update_tool_status(
        self, scope: Any, status: ToolStatus, tool: ToolInfo, context: HookContext
    ) -> Row | None:
        """
        Move a call and change its card; None if there is no such call.

        Raises:
            StaleCall: It can't move there from where it is.
        """
        id, call_id = context.conversation_id, tool.call_id
        key = self._scopes.key(scope, id)
        call = await self._find(key, call_id)
        if call is None:
            return None
        if call.status != status:
            await self._move(scope, id, call, status, tool)
        shown = {"display_text": tool.display_text} if tool.display_text is not None else {}
        if shown or tool.metadata:
            await self._calls.annotate(scope, id, call_id, {**shown, **tool.metadata})
        return await self._card(key, call_id)

    async def resolve_tool_result(
        self, scope: Any, call_id: str, content: object, context: HookContext
    ) -> Row | None:
        """The real result of a call that waits or goes on in the background; None if none does."""
        id = context.conversation_id
        key = self._scopes.key(scope, id)
        call = await self._find(key, call_id)
        if call is None or call.status not in ("interrupted", "detached"):
            return None
        try:
            if call.status == "detached":
                await self._calls.complete(scope, id, call_id, content)
            else:
                await self._calls.resolve(scope, id, call_id, content, step=call.step)
        except StaleCall:
            return None
        found = await self._last(key, lambda payload: _result_of(payload, call_id))
        return None if found is None else rows([found[0]])[0]

    async def save_synthetic_message(
        self, scope: Any, message: SyntheticMessage, context: HookContext
    ) -> Row:
        """
        Keep a row that no model wrote.

        Raises:
            NotFound: There is no such conversation for this scope.
            InvalidPayload: There is no such kind of row, or its content has another shape.
        """
        key = self._scopes.key(scope, context.conversation_id)
        row_content(message.kind, message.content)
        notice = NoticeRow(message.id, message.kind, value=message.content, actor=self._scopes.actor(scope))
        commit = await self._store.commit(key, [appended(notice, id=message.id)])
        [row] = await self._rows(key, commit.seqs[0], ())
        return row

    async def _save_result(self, scope: Any, key: ConversationKey, result: ToolResult) -> Sequence[Row]:
        call = await self._find(key, result.call_id, missing=True)
        if call is not None and call.status in OPEN:
            await self._calls.finish(scope, key.id, result)
        else:
            found = await self._last(key, lambda payload: _result_of(payload, result.call_id))
            if found is not None and (_says_something(found[0]) or not result.parts):
                return rows([found[0]])
            await self._store.commit(key, recorded(result, max_message=self._max_message)[1])
        found = await self._last(key, lambda payload: _result_of(payload, result.call_id))
        return () if found is None else rows([found[0]])

    async def _move(self, scope: Any, id: str, call: Call, status: ToolStatus, tool: ToolInfo) -> None:
        waits = call.status == "interrupted"
        match status:
            case "executing":
                step = call.step if waits else None
                await self._calls.mark_executing(scope, id, call.call_id, step=step)
            case "interrupted":
                await self._calls.interrupt(scope, id, call.call_id, prompt=tool.display_text)
            case "cancelled":
                await self._calls.cancel(scope, id, call.call_id)
            case "completed" if waits:
                await self._calls.resolve(scope, id, call.call_id, tool.result, step=call.step)
            case "completed":
                await self._calls.complete(scope, id, call.call_id, tool.result)
            case "failed":
                why = tool.error or "The tool failed."
                if waits:
                    failure = Failure("error", why)
                    await self._calls.resolve(scope, id, call.call_id, step=call.step, failure=failure)
                else:
                    await self._calls.fail(scope, id, call.call_id, why)

    async def _find(self, key: ConversationKey, call_id: str, *, missing: bool = False) -> Call | None:
        try:
            found = await self._store.calls(key, call_ids=(call_id,))
        except NotFound:
            if missing:
                raise
            return None
        return found[0] if found else None

    async def _rows(self, key: ConversationKey, seq: int, call_ids: Sequence[str]) -> Sequence[Row]:
        events = await self._store.events(key, after=seq - 1, before=seq + 1)
        calls = await self._store.calls(key, call_ids=call_ids) if call_ids else []
        return rows(events, calls)

    async def _card(self, key: ConversationKey, call_id: str) -> Row | None:
        found = await self._last(key, lambda payload: _makes(payload, call_id))
        if found is None:
            return None
        calls = await self._store.calls(key, call_ids=(call_id,))
        notes = await card_notes(self._store, key, (call_id,))
        return next(
            annotated(row, notes)
            for row in rows(found, calls)
            if isinstance(row.content, CallContent) and row.content.call_id == call_id
        )

    async def _last(self, key: ConversationKey, wanted: Callable[[Payload], bool]) -> Sequence[Event] | None:
        """The newest event that is wanted and all that follow it, looked for from the end."""
        before: int | None = None
        newer: list[Event] = []
        while events := await self._store.events(key, before=before, limit=_PAGE):
            for at in reversed(range(len(events))):
                if wanted(logged(events[at]).payload):
                    return [*events[at:], *newer]
            newer = [*events, *newer]
            before = events[0].seq
        return None


def _makes(payload: Payload, call_id: str) -> bool:
    return isinstance(payload, Message) and any(call.call_id == call_id for call in payload.calls)


def _result_of(payload: Payload, call_id: str) -> bool:
    return isinstance(payload, (ToolResult, Input)) and payload.call_id == call_id


def _says_something(event: Event) -> bool:
    payload = logged(event).payload
    return isinstance(payload, (ToolResult, Input)) and bool(
        payload.parts or getattr(payload, "failure", None)
    )
