"""The examples, with the real SDKs, against a server that refuses what providers refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from .provider import CITIES, Provider, provider

EXAMPLES = Path(__file__).parents[2] / "examples"
SDKS = ("openai", "anthropic")


def environment(server: Provider) -> dict[str, str]:
    return {
        **os.environ,
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": server.url,
    }


def run(sdk: str, server: Provider, cwd: Path, text: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"own_loop_{sdk}.py"), "--session", "trip-42", text]
    done = subprocess.run(command, cwd=cwd, env=environment(server), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("sdk", SDKS)
def test_the_second_run_goes_on_where_the_first_one_ended(sdk: str, tmp_path: Path) -> None:
    """K5"""
    with provider() as server:
        first = run(sdk, server, tmp_path, "Flights to Lisbon?")
        second = run(sdk, server, tmp_path, "And the weather?")

    assert (first, second) == ("answer 1\n", "answer 2\n")
    assert server.refused == []
    sent = server.seen[-1]
    assert [city for city in CITIES if f"sun in {city}" in str(sent)] == list(CITIES)
    assert "Flights to Lisbon?" in str(sent)


DIES = """
import asyncio, os, signal, sys
sys.argv = ["example", "--session", "trip-42", "Flights to Lisbon?"]
sys.path.insert(0, {examples!r})
import own_loop_{sdk} as example

def weather(city):
    if city == {city!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    return "sun"

example.weather = weather
asyncio.run(example.main())
"""


@pytest.mark.parametrize("city", CITIES)
@pytest.mark.parametrize("sdk", SDKS)
def test_a_run_that_dies_in_a_tool_leaves_a_transcript_that_is_taken(
    sdk: str, city: str, tmp_path: Path
) -> None:
    """L22: a call without its result is refused by every provider, for ever."""
    program = textwrap.dedent(DIES.format(examples=str(EXAMPLES), sdk=sdk, city=city))
    with provider() as server:
        died = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment(server))
        answer = run(sdk, server, tmp_path, "Are you there?")

    assert died.returncode == -signal.SIGKILL
    assert answer == "answer 2\n"
    assert server.refused == []


def test_the_server_refuses_what_providers_refuse() -> None:
    """Otherwise the tests above would prove nothing."""
    from .provider import Refused, _chat, _messages

    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    use = {"type": "tool_use", "id": "1", "name": "weather", "input": {}}
    user: dict[str, Any] = {"role": "user", "content": "Hi"}
    for body in (
        [user, {"role": "assistant", "content": None, "tool_calls": [call]}],
        [user, {"role": "assistant", "content": None, "tool_calls": [call]}, user],
        [user, {"role": "tool", "tool_call_id": "1", "content": "x"}],
    ):
        with pytest.raises(Refused):
            _chat({"model": "m", "messages": body}, 0)
    for body in (
        [user, {"role": "assistant", "content": [use]}],
        [user, {"role": "assistant", "content": [use]}, user],
        [{"role": "assistant", "content": "Hi"}, user],
    ):
        with pytest.raises(Refused):
            _messages({"model": "m", "messages": body}, 0)
