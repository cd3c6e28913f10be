"""A loop of one's own with a real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from tests.servers.smollm import SmolLM

import holdfast


@pytest.fixture(scope="module")
def model() -> Iterator[SmolLM]:
    server = SmolLM()
    server.start()
    yield server
    server.stop()


@pytest.mark.anyio
async def test_a_real_model_goes_on_in_the_next_process(model: SmolLM, tmp_path: Path) -> None:
    """K5: it reads all that was said before."""
    url = f"sqlite:///{tmp_path}/agents.db"
    client = AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0)
    read: list[int] = []

    for question in ("My name is Ada. What is the capital of Portugal?", "And of France?"):
        async with holdfast.connect(url) as hub:
            conversation = await hub.open("user-1", "trip")
            await conversation.append(question)
            messages: Any = conversation.transcript(format="openai")
            reply = await client.chat.completions.create(
                model="smollm2", messages=messages, max_tokens=24, temperature=0
            )
            await conversation.append(reply)
            assert reply.usage is not None
            read.append(reply.usage.prompt_tokens)

    async with holdfast.connect(url) as hub:
        sent = (await hub.open("user-1", "trip")).transcript(format="openai")
        spent = await hub.conversations.usage("user-1", "trip")
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant"]
    assert all(message["content"].strip() for message in sent)
    assert "Lisbon" in sent[1]["content"]
    assert read[1] > read[0] + 20
    assert spent.total.input_tokens == sum(read)
    await client.close()
