"""Whatever is done to a conversation: read from its tail, it is what the whole log says."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.conversations import Conversation
from holdfast.errors import InvalidInput
from holdfast.hub import Hub
from holdfast.model import (
    FINAL,
    Input,
    Message,
    RunEnded,
    RunStarted,
    StatePatch,
    Text,
    Todo,
    ToolCall,
    ToolResult,
)
from holdfast.store.memory import MemoryStore
from holdfast.views import Rows, logged, repair, state, transcript

numbers = st.integers(min_value=0, max_value=40)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), numbers),
        st.tuples(st.just("say"), numbers),
        st.tuples(st.just("ask"), numbers),
        st.tuples(st.just("answer"), numbers),
        st.tuples(st.just("interrupt"), numbers),
        st.tuples(st.just("patch"), numbers),
        st.tuples(st.just("input"), numbers),
        st.tuples(st.just("run"), numbers),
        st.tuples(st.just("summarise"), numbers),
        st.tuples(st.just("rewind"), numbers),
        st.tuples(st.just("fork"), numbers),
    ),
    max_size=25,
)


async def do(hub: Hub, conversation: Conversation, step: str, number: int, count: int) -> Conversation:
    """One step, if it can be done here; where it goes on."""
    id = conversation.id
    calls = [call for call in await hub.calls.list("ada", id) if call.status not in FINAL]
    chosen = calls[number % len(calls)] if calls else None
    to = number % (conversation.seq + 1)
    match step:
        case "say":
            await conversation.append(f"message {count}")
        case "ask":
            parts = [ToolCall(f"m{count}/{n}", "find", {"n": n}) for n in range(1 + number % 3)]
            results = [ToolResult(f"m{count}/0", "ok")] if number % 2 else []
            await conversation.append(Message(f"m{count}", "assistant", (Text("Hm"), *parts)), *results)
        case "answer" if chosen is not None:
            outcomes: Any = ("ok", "error", "cancelled")
            await conversation.append(ToolResult(chosen.call_id, outcomes[number % 3], (Text("found"),)))
        case "interrupt" if chosen is not None and chosen.status == "pending":
            await hub.calls.interrupt("ada", id, chosen.call_id)
            await conversation.refresh()
        case "patch":
            todos = (Todo(str(count), "do it"),) if number % 2 else None
            await conversation.append(StatePatch(set={str(number % 3): count}, todos=todos))
        case "input":
            await conversation.append(Input((Text(f"input {count}"),)))
        case "run":
            ended = number % 2 == 0
            await conversation.append(
                RunEnded(count - 1, "completed") if ended else RunStarted(count, "person", "a")
            )
        case "summarise" if to:
            with contextlib.suppress(InvalidInput):
                await conversation.summarise(f"summary {count}", to_seq=to)
        case "rewind" if conversation.seq:
            await hub.conversations.rewind("ada", id, to)
            await conversation.refresh()
            assert not [c for c in await hub.calls.list("ada", id) if c.status not in FINAL]
        case "fork" if conversation.seq:
            fork = await hub.conversations.fork("ada", id, at=to, new_id=f"{id}-{count}")
            return await hub.open("ada", fork.id)
    return conversation


async def check(hub: Hub, conversation: Conversation) -> None:
    key = conversation._key
    if conversation.info is None:
        return
    events = await hub.store.events(key)
    restored = await hub.open("ada", conversation.id)
    whole = transcript(events)
    assert restored.transcript() == conversation.transcript() == whole == repair(whole)
    folded = state(events)
    for seen in (restored.state, conversation.state):
        assert (seen.todos, seen.metadata, seen.interrupts) == (
            folded.todos,
            folded.metadata,
            folded.interrupts,
        )
    rows = Rows()
    for event in events:
        rows.apply(event)
    rows.settle(await hub.store.calls(key))
    found: list[Any] = []
    cursor = None
    while True:
        page = await hub.conversations.rows("ada", conversation.id, before=cursor, limit=4)
        found = [*page.rows, *found]
        if (cursor := page.older) is None:
            break
    assert [(row.id, row.mark) for row in found] == [(row.id, row.mark) for row in rows.rows]
    statuses = {row.content.call_id: row.content.status for row in found if row.kind == "tool_call"}
    for call in await hub.store.calls(key):
        assert statuses.get(call.call_id, call.status) == call.status
    answered = {r.call_id for e in events if isinstance(r := logged(e).payload, ToolResult)}
    assert {call.call_id for call in await hub.store.calls(key) if call.status in FINAL} <= answered


@settings(max_examples=100, deadline=None)
@given(steps)
def test_a_conversation_read_from_its_tail_is_what_the_whole_log_says(history: list[tuple[str, int]]) -> None:
    """L23, L45, S26: transcript, state, marks and statuses, after summaries, rewinds and forks in any order."""

    async def main() -> None:
        async with Hub(MemoryStore(f"memory://{uuid4()}")) as hub:
            await hub.conversations.create("ada", "c")
            conversation = await hub.open("ada", "c")
            for count, (step, number) in enumerate(history, 1):
                conversation = await do(hub, conversation, step, number, count)
                await check(hub, conversation)

    asyncio.run(main())
