"""
A server on loopback that speaks the wire formats of OpenAI and Anthropic, and refuses what they refuse.

It asks for the weather in two cities at once whenever a user said something, and answers when it has the results.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CITIES = ("Lisbon", "Porto")


class Refused(Exception):
    """What a provider answers with 400."""


class Provider(ThreadingHTTPServer):
    """``seen`` has the messages of each request that was answered, ``refused`` why others were not."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[list[Any]] = []
        self.refused: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number = len(self.server.seen)
        try:
            if self.path.endswith("/chat/completions"):
                answer = _chat(body, number)
            else:
                answer = _messages(body, number)
        except Refused as exc:
            self.server.refused.append(str(exc))
            self._answer(400, {"error": {"type": "invalid_request_error", "message": str(exc)}})
        else:
            self.server.seen.append(body["messages"])
            self._answer(200, answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _chat(body: dict[str, Any], number: int) -> dict[str, Any]:
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise Refused(f"no call {message['tool_call_id']} waits for this result")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            raise Refused(f"tool calls without a result: {waiting}")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        raise Refused(f"tool calls without a result: {waiting}")
    reply: dict[str, Any] = {"role": "assistant", "content": _text(body)}
    if body["messages"][-1]["role"] == "user":
        reply["content"] = None
        reply["tool_calls"] = [
            {
                "id": f"call_{number}_{city}",
                "type": "function",
                "function": {"name": "weather", "arguments": json.dumps({"city": city})},
            }
            for city in CITIES
        ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _messages(body: dict[str, Any], number: int) -> dict[str, Any]:
    waiting: list[str] = []
    turns = _combined(body["messages"])
    for _, blocks in turns:
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting) or results != [
            block.get("tool_use_id") for block in blocks[: len(results)]
        ]:
            raise Refused(f"results {results} for calls {waiting}")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if turns[0][0] != "user" or turns[-1][0] != "user":
        raise Refused("the first and the last turn must be the user's")
    content: list[dict[str, Any]] = [{"type": "text", "text": _text(body)}]
    if turns[-1][1][-1]["type"] == "text":
        content = [
            {"type": "tool_use", "id": f"toolu_{number}_{city}", "name": "weather", "input": {"city": city}}
            for city in CITIES
        ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _combined(messages: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Turns, as the provider makes them of messages: those of one role that follow each other are one."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], list(blocks)))
    return turns


def _text(body: dict[str, Any]) -> str:
    said = sum(
        message["role"] == "user" and "tool_result" not in json.dumps(message["content"])
        for message in body["messages"]
    )
    return f"answer {said}"
