"""Search finds what people saw, and nothing else."""

from __future__ import annotations

import base64
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import (
    Compaction,
    Custom,
    Data,
    Failure,
    File,
    Image,
    Inline,
    Input,
    Item,
    Message,
    NoticeRow,
    Option,
    Payload,
    Question,
    Resolution,
    RunEnded,
    Suspension,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownEvent,
    UnknownPart,
    Url,
    search_text,
)

from .strategies import PAYLOADS


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (Message("m", "assistant", (Text("One"), Text("two"))), "One\ntwo"),
        (Input((Text("Fly me"), File(Url("https://x/y"), "plan.pdf"))), "Fly me\nplan.pdf"),
        (ToolResult("c", "ok", (Text("HF101"), Data({"city": ["Lisbon", 5, None]}))), "HF101\nLisbon"),
        (ToolResult("c", "error", failure=Failure("E1", "No seat", "Traceback")), "No seat"),
        (NoticeRow("n", "notification", "Saved", value={"as": "trip.pdf"}), "Saved\ntrip.pdf"),
        (RunEnded(1, "failed", failure=Failure("E2", "Try later", "503")), "Try later"),
        (RunEnded(1, "halted", "Enough"), "Enough"),
        (Suspension("c", 1, "question", question=Question("Which?", (Option("w", "Window"), Option("a")))),
         "Which?\nWindow\na"),
        (Suspension("c", 1, "approval", prompt="Book it?"), "Book it?"),
        (Resolution("c", 1, "answer", answer=["Window"], reason="I like it"), "I like it\nWindow"),
        (ToolResult("c", "ok", (Data("你好" * 300),)), "你好" * 300),
    ],
)  # fmt: skip
def test_what_people_saw_is_found(payload: Payload, text: str) -> None:
    assert search_text(payload) == text


@pytest.mark.parametrize(
    "payload",
    [
        Message("m", "system", (Text("You are a pirate"),)),
        Message("m", "user", (Text("already found by its input"),), inputs=(4,)),
        Message("m", "assistant", (Thinking("secret thought", "c2lnbmF0dXJl"),)),
        Message("m", "assistant", (Image(Inline("aGVsbG8gd29ybGQ=")), ToolCall("c", "book", {"a": "b"}))),
        Message("m", "assistant", (Custom("k", "v"), UnknownPart("film", '{"type":"film","text":"no"}'))),
        Message("m", "assistant"),
        Message("m", "assistant", (Text(""),)),
        ToolResult("c", "ok", (Data(base64.b64encode(os.urandom(300)).decode()),), artifact="for programs"),
        Compaction(1, 1, 5, "what only the model reads"),
        Resolution("c", 1, "edit", args={"amount": "five"}),
        Item("openai", msgspec.Raw(b'{"text":"its adapter knows"}')),
        UnknownEvent("future", b'{"text":"who knows"}'),
    ],
)
def test_what_people_did_not_see_is_not_found(payload: Payload) -> None:
    assert search_text(payload) is None


@pytest.mark.parametrize("type", PAYLOADS)
@settings(max_examples=10, deadline=None)
@given(random=st.data())
def test_every_payload_has_text_or_none(type: str, random: st.DataObject) -> None:
    text: Any = search_text(random.draw(PAYLOADS[type]))

    assert text is None or (isinstance(text, str) and text)
