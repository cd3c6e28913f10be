"""
What was really sent to a model, kept for a while.

Off unless the application turns it on, for everything or for one conversation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from holdfast.clock import Clock, microseconds, system_clock
from holdfast.errors import InvalidInput, NotFound
from holdfast.ids import ConversationKey, check_name
from holdfast.model import JSON, ModelCall, decode_record, encode, loads
from holdfast.recording import update_header
from holdfast.scopes import Scopes
from holdfast.store import DropRecords, PutRecord, Store, Tag

__all__ = ["Audit", "AuditPolicy"]

COLLECTION: Final = "audit"
_TAG: Final = ("holdfast.audit", "1")
_SETTING: Final = "audit"
_PAGE = 100


class AuditPolicy(msgspec.Struct, frozen=True):
    """
    What is kept of model calls.

    ``everywhere`` is for conversations that do not say themselves. ``redact`` sees each call before it is
    stored and gives what may be kept, or None. ``keep_for`` is how long (seconds or a timedelta); what is
    older goes when ``collect`` is called.
    """

    everywhere: bool = False
    redact: Callable[[ModelCall], ModelCall | None] | None = None
    keep_for: float | timedelta | None = None


class Audit:
    """The model calls of a scope's conversations."""

    def __init__(
        self, store: Store, scopes: Scopes, policy: AuditPolicy | None = None, *, clock: Clock = system_clock
    ) -> None:
        self._store, self._scopes, self._policy = store, scopes, policy or AuditPolicy()
        self._clock = clock

    async def enable(self, scope: object, id: str, on: bool | None = True) -> None:
        """
        Keep this conversation's model calls, or not; None leaves it to the policy again.

        Raises:
            NotFound: There is no such conversation for this scope.
        """

        def change(settings: dict[str, JSON]) -> dict[str, JSON]:
            rest = {name: value for name, value in settings.items() if name != _SETTING}
            return rest if on is None else {**rest, _SETTING: bool(on)}

        await update_header(self._store, self._scopes.key(scope, id), "settings", change)

    async def record(self, scope: object, id: str, call: ModelCall) -> bool:
        """
        Keep a model call, if this conversation's are kept; whether it was.

        Without ``at`` it counts as made now. The same id at the same time is kept once.

        Raises:
            NotFound: There is no such conversation for this scope.
            InvalidPayload: Something in it is not JSON.
        """
        key = self._scopes.key(scope, id)
        if not await self._is_on(key):
            return False
        check_name("model call id", call.id)
        if not call.at:
            call = msgspec.structs.replace(call, at=self._clock())
        kept = call if self._policy.redact is None else self._policy.redact(call)
        if kept is None:
            return False
        await self._store.commit(key, [PutRecord(COLLECTION, _name(call), encode(kept)), Tag(*_TAG)])
        return True

    async def list(
        self, scope: object, id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[ModelCall]:
        """
        The model calls that were kept, made later than ``after`` (microseconds), oldest first.

        Raises:
            NotFound: There is no such conversation for this scope.
        """
        key = self._scopes.key(scope, id)
        records = await self._store.records(key, COLLECTION, after=_time(after + 1), limit=limit)
        return [decode_record(ModelCall, record.data) for record in records]

    async def collect(self, scope: object, *, older_than: float | timedelta | None = None) -> int:
        """
        Remove what is older than this, or than the policy keeps; how many were removed.

        Raises:
            InvalidInput: Neither says how old that is.
        """
        age = self._policy.keep_for if older_than is None else older_than
        if age is None:
            raise InvalidInput("say how old: collect(older_than=…), or keep_for of the policy")
        before = _time(max(0, self._clock() - microseconds(seconds(age))))
        owner, cursor, removed = self._scopes.owner(scope), None, 0
        while page := await self._store.headers(owner, tag=_TAG, order="created", before=cursor, limit=_PAGE):
            for header in page:
                with contextlib.suppress(NotFound):
                    removed += await self._collect(header.key, before)
            cursor = (page[-1].created_at, page[-1].key.id)
        return removed

    async def _collect(self, key: ConversationKey, before: str) -> int:
        removed = 0
        while old := await self._store.records(key, COLLECTION, before=before, limit=_PAGE):
            await self._store.commit(key, [DropRecords(COLLECTION, key=record.key) for record in old])
            removed += len(old)
        return removed

    async def _is_on(self, key: ConversationKey) -> bool:
        settings = loads((await self._store.header(key)).settings)
        said = settings.get(_SETTING) if isinstance(settings, dict) else None
        return self._policy.everywhere if said is None else said is True


def seconds(duration: float | timedelta) -> float:
    """A duration as the seconds that stores count in."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def _time(at: int) -> str:
    return f"{at:020d}"


def _name(call: ModelCall) -> str:
    return f"{_time(call.at)}/{call.id}"
