"""LangGraph: a graph over ``MessagesState`` with one node, whoever saves its checkpoints."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph  # type: ignore[import-not-found]

from benchmarks.messages import Message
from benchmarks.subject import Subject, owner_of


class LangGraph(Subject[Any]):
    """
    A turn is one ``ainvoke``, a single message one ``aupdate_state``.

    It can't load a part of a conversation, and it lists checkpoints, so threads are told apart here.
    """

    @abstractmethod
    async def _make_saver(self) -> Any:
        """The saver as an asynchronous context, not entered yet."""

    async def open(self) -> None:
        self._answers: dict[str, Sequence[Any]] = {}
        self._exits = AsyncExitStack()
        self._saver = await self._exits.enter_async_context(await self._make_saver())
        await self._saver.setup()

        async def agent(state: Any, config: Any) -> dict[str, Any]:
            return {"messages": self._answers[config["configurable"]["thread_id"]]}

        # The annotations are strings here and would be looked up where `Any` is not known.
        agent.__annotations__.clear()
        graph = StateGraph(MessagesState)
        graph.add_node("agent", agent)
        graph.add_edge(START, "agent")
        graph.add_edge("agent", END)
        self._graph = graph.compile(checkpointer=self._saver)

    async def close(self) -> None:
        await self._exits.aclose()

    def prepare(self, messages: Sequence[Message]) -> list[Any]:
        return [_message(message) for message in messages]

    async def create(self, conversation: str) -> None:
        """A thread begins with its first message."""

    async def append(self, conversation: str, message: Any) -> None:
        await self._graph.aupdate_state(_config(conversation), {"messages": [message]}, as_node="agent")

    async def turn(self, conversation: str, messages: Sequence[Any]) -> None:
        self._answers[conversation] = messages[1:]
        await self._graph.ainvoke({"messages": [messages[0]]}, _config(conversation))

    async def fill(self, conversation: str, messages: Sequence[Any]) -> None:
        values = {"messages": list(messages)}
        await self._graph.aupdate_state(_config(conversation), values, as_node="agent")

    async def load(self, conversation: str) -> Sequence[Any]:
        state = await self._graph.aget_state(_config(conversation))
        messages: list[Any] = state.values["messages"]
        return messages

    async def newest(self, conversation: str, count: int) -> Sequence[Any]:
        return (await self.load(conversation))[-count:]

    async def list_newest(self, owner: str, count: int) -> Sequence[Any]:
        threads: dict[str, None] = {}
        async for checkpoint in self._saver.alist(None, filter={"owner": owner}):
            threads[checkpoint.config["configurable"]["thread_id"]] = None
            if len(threads) == count:
                break
        return list(threads)


def _config(conversation: str) -> Any:
    return {"configurable": {"thread_id": conversation}, "metadata": {"owner": owner_of(conversation)}}


def _message(message: Message) -> Any:
    match message["role"]:
        case "user":
            return HumanMessage(message["content"], id=str(uuid4()))
        case "assistant":
            calls = [
                {
                    "id": call["id"],
                    "name": call["function"]["name"],
                    "args": json.loads(call["function"]["arguments"]),
                }
                for call in message["tool_calls"]
            ]
            return AIMessage(message["content"], id=str(uuid4()), tool_calls=calls)
        case _:
            return ToolMessage(
                message["content"],
                id=str(uuid4()),
                tool_call_id=message["tool_call_id"],
                name=message["name"],
            )
