"""
Your own loop with the Anthropic SDK, made durable: run it twice with the same --session and it goes on.

    python examples/own_loop_anthropic.py --session trip-42 "Flights to Lisbon tomorrow?"
    python examples/own_loop_anthropic.py --session trip-42 "And the weather there?"

ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL say which server.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from anthropic import AsyncAnthropic, omit

import holdfast

TOOLS: list[Any] = [
    {
        "name": "weather",
        "description": "The weather of a city, now.",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    }
]


def weather(city: Any) -> str:
    return f"22 degrees and sun in {city}"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", required=True)
    parser.add_argument("--store", default="sqlite:///agents.db")
    parser.add_argument("--model", default="claude-haiku-4-5")
    parser.add_argument("text")
    given = parser.parse_args()

    client = AsyncAnthropic()
    async with holdfast.connect(given.store) as hub:
        conversation = await hub.open("user-1", given.session)  # restores it, or starts fresh
        await conversation.append(given.text)
        while True:
            messages: Any
            system, messages = conversation.transcript(format="anthropic")  # valid, whatever happened before
            reply = await client.messages.create(
                model=given.model, max_tokens=1000, system=system or omit, messages=messages, tools=TOOLS
            )
            await conversation.append(reply)  # durable when it returns
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                break
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": weather(**call.input)}
                for call in calls
            ]
            await conversation.append({"role": "user", "content": results})
        print("".join(block.text for block in reply.content if block.type == "text"))


if __name__ == "__main__":
    asyncio.run(main())
