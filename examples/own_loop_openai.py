"""
Your own loop with the OpenAI SDK, made durable: run it twice with the same --session and it goes on.

    python examples/own_loop_openai.py --session trip-42 "Flights to Lisbon tomorrow?"
    python examples/own_loop_openai.py --session trip-42 "And the weather there?"

OPENAI_API_KEY and OPENAI_BASE_URL say which server; any that speaks chat completions will do. Kill it in the
middle of a tool call: the next run still sends a valid transcript.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from openai import AsyncOpenAI

import holdfast

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city, now.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


def weather(city: str) -> str:
    return f"22 degrees and sun in {city}"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", required=True)
    parser.add_argument("--store", default="sqlite:///agents.db")
    parser.add_argument("--model", default="gpt-5-mini")
    parser.add_argument("text")
    given = parser.parse_args()

    client = AsyncOpenAI()
    async with holdfast.connect(given.store) as hub:
        conversation = await hub.open("user-1", given.session)  # restores it, or starts fresh
        await conversation.append(given.text)
        while True:
            messages: Any = conversation.transcript(format="openai")  # valid, whatever happened before
            reply = await client.chat.completions.create(model=given.model, messages=messages, tools=TOOLS)
            await conversation.append(reply)  # durable when it returns
            message = reply.choices[0].message
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                if call.type == "function":
                    result = weather(**json.loads(call.function.arguments))
                    await conversation.append({"role": "tool", "tool_call_id": call.id, "content": result})
        print(message.content)


if __name__ == "__main__":
    asyncio.run(main())
