"""Export and import: lossless there and back, and what other programs kept."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.test_copying import OWNERS, fill, holdfast, plain

from holdfast.copying import conversations, jsonl
from holdfast.copying.foreign import load_foreign
from holdfast.errors import InvalidInput, NotFound
from holdfast.ids import ConversationKey
from holdfast.store import Append, SetHeader, Store, connect
from holdfast.store.memory import MemoryStore
from holdfast.testing import FakeClock
from holdfast.testing.build import a_conversation, a_key, a_rich_conversation, said, seen
from holdfast.views import transcript
from holdfast.views.formats import to_anthropic, to_openai

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(clock: FakeClock) -> AsyncIterator[Store]:
    async with MemoryStore(clock=clock) as store:
        yield store


@pytest.fixture
async def target(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with connect(f"sqlite:///{tmp_path}/target.db", clock=clock) as store:
        yield store


async def exported(store: Store, path: Path) -> list[str]:
    file = io.BytesIO()
    async for header in conversations(store):
        await jsonl.export(store, header.key, file)
    _write(path, file.getvalue())
    return file.getvalue().decode().split("\n")[:-1]


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def test_an_export_comes_back_as_it_was(
    store: Store, target: Store, clock: FakeClock, tmp_path: Path
) -> None:
    """L6: also bytes that are no text, and JSON that is written in an odd way."""
    await fill(store, clock)
    odd = [b' {"b" :1,\n"a": 1e400}', '"\\ud800 \\u0000 é 😀"'.encode(), b"123456789012345678901234567890"]
    await a_conversation(store, "odd json", ops=[Append("odd", data, text="x\ny") for data in odd])
    clock.advance(seconds=1000)
    lines = await exported(store, tmp_path / "all.jsonl")
    told: list[tuple[int, int]] = []

    imported = await jsonl.load(
        target, tmp_path / "all.jsonl", on_progress=lambda *p: told.append(p), clock=clock
    )
    again = await jsonl.load(target, tmp_path / "all.jsonl", clock=clock)

    assert imported.problems == again.problems == ()
    assert (imported.conversations, again.conversations, again.unchanged) == (12, 0, 12)
    assert plain(await seen(target, *OWNERS), clock) == plain(await seen(store, *OWNERS), clock)
    size = len("\n".join([*lines, ""]).encode())
    assert len(told) == 12
    assert told[-1] == (size, size)
    for line in odd:
        assert line in [event.data for event in await target.events(a_key("odd json"))]
    there = await exported(target, tmp_path / "again.jsonl")
    hashes = [line for line in lines if '"end"' in line]
    assert [line for line in there if '"end"' in line] == hashes


async def test_an_export_can_get_another_owner(
    store: Store, target: Store, clock: FakeClock, tmp_path: Path
) -> None:
    await a_rich_conversation(store)
    await exported(store, tmp_path / "a.jsonl")

    await jsonl.load(target, tmp_path / "a.jsonl", owner="eve", clock=clock)

    assert await target.owners() == ["eve"]
    assert await target.events(a_key(owner="eve")) == await store.events(a_key())


async def test_what_is_there_with_other_content_is_left_alone(
    store: Store, target: Store, clock: FakeClock, tmp_path: Path
) -> None:
    await a_rich_conversation(store)
    await exported(store, tmp_path / "a.jsonl")
    await a_conversation(target, says=["mine"])

    imported = await jsonl.load(target, tmp_path / "a.jsonl", clock=clock)

    assert [(problem.line, "another content" in problem.reason) for problem in imported.problems] == [
        (1, True)
    ]
    assert len(await target.events(a_key())) == 1


def replaced(lines: list[str], number: int, by: str | None) -> list[str]:
    return [*lines[: number - 1], *([] if by is None else [by]), *lines[number:]]


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (lambda lines: replaced(lines, 3, "{"), 3, "truncated"),
        (lambda lines: replaced(lines, 3, '{"event": {"seq": "one"}}'), 3, "seq"),
        (lambda lines: replaced(lines, 3, '{"surprise": 1}'), 3, "surprise"),
        (lambda lines: replaced(lines, 3, '{"tag": ["a", "b", "c"], "end": "x"}'), 3, "one of"),
        (lambda lines: replaced(lines, 3, "[]"), 3, "object"),
        (lambda lines: replaced(lines, 3, None), 1, "not what it was"),
        (lambda lines: replaced(lines, 3, lines[4].replace("hello", "jello")), 1, "not what it was"),
        (lambda lines: replaced(lines, 1, lines[0].replace('"holdfast":1', '"holdfast":9')), 1, "version 9"),
        (lambda lines: replaced(lines, 1, None), 1, "outside of any conversation"),
        (lambda lines: [lines[0], *lines[5:6], *lines[1:5], *lines[6:]], 3, "after one with"),
    ],
)
async def test_a_broken_line_is_named_and_stops_nothing_else(
    store: Store, target: Store, clock: FakeClock, tmp_path: Path, change: Any, line: int, says: str
) -> None:
    await a_rich_conversation(store, "first")
    broken = await exported(store, tmp_path / "a.jsonl")
    await store.delete(a_key("first"))
    await a_rich_conversation(store, "second")
    whole = await exported(store, tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text("\n".join([*change(broken), *whole]) + "\n")

    imported = await jsonl.load(target, tmp_path / "a.jsonl", clock=clock)

    [problem] = imported.problems
    assert problem.line == line
    assert says in problem.reason
    assert [header.key.id for header in await target.headers("ada")] == ["second"]


async def test_a_file_that_was_cut_off_is_noticed_wherever_that_was(
    store: Store, target: Store, clock: FakeClock, tmp_path: Path
) -> None:
    await a_rich_conversation(store)
    whole = "\n".join(await exported(store, tmp_path / "a.jsonl"))
    for length in range(1, len(whole) - 1, 97):
        (tmp_path / "a.jsonl").write_text(whole[:length])

        imported = await jsonl.load(target, tmp_path / "a.jsonl", clock=clock)

        assert (imported.conversations, len(imported.problems)) == (0, 1)
        assert await target.owners() == []


async def test_what_is_not_there_is_said_to_be_so(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await jsonl.export(store, a_key("missing"), io.BytesIO())
    with pytest.raises(InvalidInput, match="No such file"):
        await jsonl.load(store, tmp_path / "missing.jsonl")
    with pytest.raises(InvalidInput, match="No such file"):
        await load_foreign(store, tmp_path / "missing.json", "openai", owner="ada")


# What other programs kept

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Flights to Lisbon?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": "find", "arguments": json.dumps({"n": n})},
            }
            for n in (1, 2)
        ],
    },
    {"role": "tool", "tool_call_id": "call_2", "content": "two"},
    {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    {"role": "assistant", "content": "HF101 flies at nine."},
]


async def test_a_chat_of_openai_becomes_a_conversation_that_goes_on(store: Store, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))

    imported = await load_foreign(store, tmp_path / "chat.json", "openai", owner="ada")

    assert (imported.conversations, imported.events, imported.problems) == (1, 6, ())
    key = ConversationKey("ada", "chat")
    sent = to_openai(transcript(await store.events(key)))
    assert [message["role"] for message in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert [m["content"] for m in sent if m["role"] == "tool"] == ["one", "two"]
    assert [hit.seq for hit in await store.search("ada", "lisbon")] == [2]
    again = await load_foreign(store, tmp_path / "chat.json", "openai", owner="ada")
    assert [problem.reason for problem in again.problems] == [f"{key} is there already; left as it is"]


async def test_a_file_of_many_chats_becomes_many_conversations(store: Store, tmp_path: Path) -> None:
    lines = [json.dumps({"messages": CHAT}), "{", json.dumps({"messages": CHAT[:2]}), json.dumps({"text": 1})]
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))

    imported = await load_foreign(store, tmp_path / "chats.jsonl", "openai", owner="ada", id="old")

    assert [problem.line for problem in imported.problems] == [2, 4]
    found = {header.key.id: header.last_seq for header in await store.headers("ada")}
    assert found == {"old-1": 6, "old-3": 2}


async def test_messages_of_anthropic_come_with_their_system_prompt(store: Store, tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "Flights?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"to": "LIS"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "HF101"}]},
        17,
        {"role": "assistant", "content": [{"type": "text", "text": "HF101."}]},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"system": "Be kind.", "messages": messages}))

    imported = await load_foreign(store, tmp_path / "a.json", "anthropic", owner="ada")

    assert [problem.line for problem in imported.problems] == [4]
    system, sent = to_anthropic(transcript(await store.events(ConversationKey("ada", "a"))))
    assert system == "Be kind."
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant"]


def entry(number: int, kind: str, **fields: Any) -> str:
    at = f"2026-01-02T03:04:{number:02}.500Z"
    return json.dumps({"type": kind, "sessionId": "s-1", "timestamp": at, "uuid": f"u-{number}", **fields})


async def test_a_session_of_claude_code_keeps_its_times(store: Store, tmp_path: Path) -> None:
    reply = {"id": "msg_1", "role": "assistant", "model": "claude"}
    lines = [
        json.dumps({"type": "summary", "summary": "Flights"}),
        entry(1, "user", message={"role": "user", "content": "Flights?"}),
        entry(2, "assistant", message={**reply, "content": [{"type": "text", "text": "Let me look."}]}),
        entry(
            2,
            "assistant",
            message={**reply, "content": [{"type": "tool_use", "id": "t1", "name": "find", "input": {}}]},
        ),
        "not JSON",
        entry(3, "user", isSidechain=True, message={"role": "user", "content": "elsewhere"}),
        entry(
            4,
            "user",
            message={
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}],
            },
        ),
        entry(5, "system", content="ignored"),
        entry(6, "assistant", message="what?"),
    ]
    (tmp_path / "session.jsonl").write_text("\n".join(lines))

    async with connect("memory://") as real:
        imported = await load_foreign(real, tmp_path / "session.jsonl", "claude-code", owner="ada")

        assert [problem.line for problem in imported.problems] == [5, 9]
        [header] = await real.headers("ada")
        assert (header.key.id, header.title, header.last_seq) == ("s-1", "Flights", 3)
        assert [event.at % 60_000_000 for event in await real.events(header.key)] == [
            1_500_000,
            2_500_000,
            4_500_000,
        ]
        [_, reply_turn, result] = transcript(await real.events(header.key))
        assert reply_turn.text == "Let me look."  # type: ignore[union-attr]
        assert result.call_id == reply_turn.calls[0].call_id  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "{}", "17", "[]", "not json", "\xff", '{"messages": 3}'])
@pytest.mark.parametrize("format", ["openai", "anthropic", "claude-code"])
async def test_a_file_without_messages_is_refused_and_changes_nothing(
    store: Store, tmp_path: Path, text: str, format: Any
) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(InvalidInput):
        await load_foreign(store, tmp_path / "a.json", format, owner="ada")

    assert await store.owners() == []


async def test_a_conversation_that_does_not_fit_leaves_nothing_behind(store: Store, tmp_path: Path) -> None:
    lines = [
        entry(1, "user", message={"role": "user", "content": "small"}),
        entry(2, "user", message={"role": "user", "content": "x" * (store.limits.max_commit + 1)}),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))

    imported = await load_foreign(store, tmp_path / "a.jsonl", "claude-code", owner="ada")

    assert len(imported.problems) == 1
    assert await store.owners() == []


# As an operator


async def test_the_commands_export_and_import(tmp_path: Path) -> None:
    async with connect(f"sqlite:///{tmp_path}/a.db") as store:
        for id in ("c-1", "c-2"):
            await store.commit(a_key(id), [said("hello")], create=SetHeader(title=id))
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))

    def run(*arguments: str) -> tuple[int, str]:
        done = holdfast(*arguments, cwd=tmp_path)
        out, err = done.communicate()
        return done.returncode, out + err

    assert run("export", "sqlite:///a.db", "ada", "--to", "a.jsonl") == (
        0,
        "Exported 2 conversation(s) with 2 event(s).\n",
    )
    assert run("export", "sqlite:///a.db", "ada", "--to", "a.jsonl")[0] == 2
    assert run("export", "sqlite:///a.db", "ada", "c-3")[0] == 2
    assert run("import", "sqlite:///b.db", "a.jsonl") == (0, "Imported 2 conversation(s) with 2 event(s).\n")
    code, printed = run("import", "sqlite:///b.db", "a.jsonl")
    assert (code, "2 were there already" in printed) == (0, True)
    assert run("import", "sqlite:///b.db", "chat.json", "--format", "openai")[0] == 2
    code, printed = run("import", "sqlite:///b.db", "chat.json", "--format", "openai", "--owner", "eve")
    assert (code, "1 conversation" in printed) == (0, True)
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("broken\n")
    code, printed = run("import", "sqlite:///c.db", "a.jsonl")
    assert code == 1
    assert "a.jsonl:" in printed
