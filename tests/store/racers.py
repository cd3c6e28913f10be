"""
Processes that race.

A test starts several of them with ``Racer("acquire", url, …)``; each opens its store, says that it is
ready, and runs its part when all are told to go.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from holdfast.errors import StaleCall
from holdfast.store import Append, ConversationKey, MoveCall, connect

OWNER = "ada"


class Racer:
    """A process that runs a function of this file."""

    def __init__(self, *arguments: object) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", __file__, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def hear(self) -> list[int]:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        won: list[int] = json.loads(line)
        return won

    def go(self) -> None:
        """Let it run."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


def race(count: int, *arguments: object) -> list[list[int]]:
    """What each of that many processes won, when all of them ran at once."""
    with ExitStack() as stack:
        racers = [stack.enter_context(Racer(*arguments, number)) for number in range(count)]
        for racer in racers:
            racer.hear()
        for racer in racers:
            racer.go()
        return [racer.hear() for racer in racers]


async def acquire(url: str, rounds: str, me: str) -> list[int]:
    """Try to get the lease of each conversation."""
    async with connect(url) as store:
        await _ready()
        return [n for n in range(int(rounds)) if await store.acquire(_key(n), me, ttl=60)]


async def resolve(url: str, rounds: str, me: str) -> list[int]:
    """Try to answer the call of each conversation."""
    won = []
    async with connect(url) as store:
        await _ready()
        for number in range(int(rounds)):
            move = MoveCall("call_1", "completed", frozenset(("interrupted",)), data=me.encode())
            try:
                await store.commit(_key(number), [move, Append("resolution", me.encode())])
            except StaleCall:
                continue
            won.append(number)
    return won


async def migrate(url: str, me: str) -> list[int]:
    """Make the schema."""
    await _ready()
    await connect(url).migrate()
    return []


def _key(number: int) -> ConversationKey:
    return ConversationKey(OWNER, f"c-{number}")


async def _ready() -> None:
    sys.stdout.write("[]\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(asyncio.run(globals()[sys.argv[1]](*sys.argv[2:])))}\n")
