"""Agents' states in a store."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from holdfast.errors import InvalidPayload, NotFound, StaleRecord
from holdfast.model import JSON, dumps, loads
from holdfast.persistence.behaviours import HookContext, PersistContext
from holdfast.scopes import Scopes
from holdfast.store import ABSENT, DropRecords, Op, PutRecord, Store

__all__ = ["AgentStates"]

_PORTION = 32
_HEAD = "head"
_TRIES = 50


class AgentStates:
    """
    ``AgentPersistence`` over a store.

    Messages are kept in portions, and only those that changed are written: what a save costs does not grow
    with the conversation.
    """

    def __init__(self, store: Store, scopes: Scopes) -> None:
        self._store, self._scopes = store, scopes

    async def load_state(self, scope: Any, context: HookContext) -> Mapping[str, JSON] | None:
        """What was persisted last for this agent, or None."""
        key = self._scopes.key(scope, context.conversation_id)
        try:
            records = await self._store.records(key, _collection(context.agent_id))
        except NotFound:
            return None
        found = {record.key: record.data for record in records}
        if _HEAD not in found:
            return None
        saved = loads(found[_HEAD])["saved"]
        messages = [message for name in sorted(found) if name != _HEAD for message in loads(found[name])]
        if messages:
            saved["state"]["messages"] = messages
        return dict(saved)

    async def persist_state(self, scope: Any, state: Mapping[str, JSON], context: PersistContext) -> None:
        """
        Keep a state in the place of the one before.

        Raises:
            NotFound: There is no such conversation for this scope.
            InvalidPayload: It is not what ``to_serialized`` gives.
        """
        key = self._scopes.key(scope, context.conversation_id)
        collection = _collection(context.agent_id)
        saved, portions = _portions(state)
        marks = [blake2b(portion, digest_size=16).hexdigest() for portion in portions]
        head = dumps({"saved": saved, "portions": marks})
        for left in reversed(range(_TRIES)):
            old = await self._store.records(key, collection, keys=(_HEAD,))
            before = loads(old[0].data)["portions"] if old else []
            ops: list[Op] = [
                PutRecord(collection, _name(number), portion)
                for number, portion in enumerate(portions)
                if before[number : number + 1] != [marks[number]]
            ]
            ops += (DropRecords(collection, _name(n)) for n in range(len(portions), len(before)))
            ops.append(PutRecord(collection, _HEAD, head, when=old[0].revision if old else ABSENT))
            try:
                await self._store.commit(key, ops)
            except StaleRecord:
                if not left:
                    raise
            else:
                return


def _collection(agent_id: str) -> str:
    return f"agent_state/{agent_id}"


def _name(number: int) -> str:
    return f"m{number:08d}"


def _portions(state: Mapping[str, JSON]) -> tuple[dict[str, JSON], list[bytes]]:
    """A saved state without its messages, and those in portions."""
    inner = state.get("state")
    if not isinstance(inner, Mapping):
        raise InvalidPayload("$", "is not a saved state; use AgentState.to_serialized()")
    messages = inner.get("messages", [])
    if not isinstance(messages, list):
        raise InvalidPayload("$.state.messages", "must be a list")
    rest = {**state, "state": {**inner, "messages": []} if "messages" in inner else dict(inner)}
    return rest, [dumps(messages[at : at + _PORTION]) for at in range(0, len(messages), _PORTION)]
