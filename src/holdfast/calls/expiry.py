"""What time does to a call."""

from __future__ import annotations

from holdfast.errors import NotFound, StaleCall
from holdfast.model import Call, Payload, Resolution, Text, ToolResult
from holdfast.recording import appended, facts_of
from holdfast.store import MoveCall, Store, Wake

_SLOW = "This call took too long and was given up; it may have had its effect."


async def expire(store: Store, call: Call) -> bool:
    """
    Close a call whose time is over, whoever set it; False if somebody else was first.

    Nobody's scope is needed: time acts, not a person.
    """
    facts = facts_of(call)
    payloads: list[Payload] = []
    if call.status == "interrupted":
        payloads += (Resolution(call.call_id, call.step, "expire"), ToolResult(call.call_id, "expired"))
    else:
        if facts.wait is not None:
            payloads.append(Resolution(call.call_id, call.step, "expire"))
        payloads.append(ToolResult(call.call_id, "expired", (Text(_SLOW),)))
    move = MoveCall(call.call_id, "expired", frozenset((call.status,)), call.step)
    try:
        await store.commit(call.key, [move, *map(appended, payloads), Wake()])
    except (StaleCall, NotFound):
        return False
    return True
