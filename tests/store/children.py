"""
Real processes for tests, and what they do.

This file is both: a test starts ``Child("commit_when_told", url)``, which runs the function of that
name below in a process of its own. They talk in lines, and a child that hangs is ended by a clock.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.errors import HoldfastError, StoreError
from holdfast.ids import ConversationKey
from holdfast.store import Append, SetHeader, connect
from holdfast.store.sqlite import SQLiteStore, schema

KEY = ConversationKey("ada", "c-1")
PATIENCE = 60.0
NOBODY = 65534


class Child:
    """A process that runs a function of this file."""

    def __init__(self, function: str, *arguments: object) -> None:
        command = [sys.executable, "-P", __file__, function, *map(str, arguments)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self._late = False
        self._clock = threading.Timer(PATIENCE, self._give_up)
        self._clock.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self._clock.cancel()

    def tell(self, line: str = "go") -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """The next line that it sends."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        assert not self._late, f"the child was ended after {PATIENCE} seconds"
        assert line, f"the child ended with {self.process.wait()}:\n{self.process.stderr.read()}"
        return line.strip()

    def end(self) -> int:
        """Wait until it ends by itself; its exit code."""
        code = self.process.wait()
        self.process.communicate()
        self._clock.cancel()
        assert not self._late, f"the child was ended after {PATIENCE} seconds"
        return code

    def _give_up(self) -> None:
        # Told apart from a child that kills itself, which is what some tests wait for.
        self._late = True
        self.process.kill()


async def open_and_commit(*urls: str) -> None:
    """Open each of the stores when told, append five events to a conversation of all, and close it."""
    _tell("ready")
    for url in urls:
        _hear()
        async with connect(url) as store:
            for number in range(5):
                await store.commit(KEY, [Append("notice", b"%d" % number)], create=SetHeader())
        _tell("done")


async def commit_when_told(url: str, text: str) -> None:
    """Append an event each time it is told to."""
    async with connect(url) as store:
        _tell("ready")
        while _hear():
            done = await store.commit(
                KEY, [Append("message", b'"%b"' % text.encode(), text=text)], create=SetHeader()
            )
            _tell(str(done.last_seq))


async def migrate_when_told(url: str, *scripts: str) -> None:
    """Bring a store to the schema that these files add to the current one."""
    wanted = _with_scripts(*scripts)
    schema.migrations = lambda: wanted
    _tell("ready")
    _hear()
    await SQLiteStore(url).migrate()
    _tell("done")


async def commit_and_die(url: str, text: str) -> None:
    """Die as soon as a commit was acknowledged, before anything that the store does later."""
    async with connect(url) as store:
        await store.commit(KEY, [Append("message", b'"%b"' % text.encode(), text=text)], create=SetHeader())
        _die()


async def delete_and_die(url: str, nth: str) -> None:
    """Delete the conversation, and die in the n-th transaction of that."""
    arm = _die_at_commit(int(nth))
    async with connect(url) as store:
        arm()
        await store.delete(KEY)
    _tell("alive")


async def fork_and_die(url: str, nth: str) -> None:
    """Fork the conversation, and die in the n-th transaction of that."""
    arm = _die_at_commit(int(nth))
    async with connect(url) as store:
        arm()
        await store.fork(KEY, "forked")
    _tell("alive")


async def write_until_full(url: str, limit: str) -> None:
    """Commit until no file may grow any more; when told that there is space again, go on."""
    async with connect(url) as store:
        await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), most))
        acknowledged = 1
        try:
            while True:
                await store.commit(KEY, [Append("notice", b'"%b"' % (b"x" * 4000))])
                acknowledged += 1
        except StoreError as exc:
            _tell(f"{type(exc).__name__} {acknowledged}")
        _hear()
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        done = await store.commit(KEY, [Append("notice", b"2")])
        _tell(str(done.last_seq))


async def commit_as_nobody(url: str) -> None:
    """Commit without the rights of root, which no permission stops."""
    scripts = schema.migrations()
    schema.migrations = lambda: scripts
    store = connect(url)
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        async with store:
            await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())
    except HoldfastError as exc:
        _tell(type(exc).__name__)
    else:
        _tell("committed")


async def use_after_fork(url: str) -> None:
    """Use an open store on both sides of a fork."""
    async with connect(url) as store:
        await store.commit(KEY, [Append("notice", b"1")], create=SetHeader())
        if (child := os.fork()) == 0:
            try:
                await store.commit(KEY, [Append("notice", b"2")])
            except StoreError as exc:
                _tell(f"{type(exc).__name__}: {exc}")
            finally:
                os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        done = await store.commit(KEY, [Append("notice", b"3")])
        _tell(str(done.last_seq))


def _with_scripts(*paths: str) -> list[str]:
    now = schema.migrations()
    return [*now, *(schema.stamped(Path(path).read_text(), n) for n, path in enumerate(paths, len(now) + 1))]


def _die_at_commit(nth: int) -> Callable[[], None]:
    """Die at the n-th COMMIT of any connection, counted from when it is armed."""
    real, armed, commits = sqlite3.connect, False, 0

    def arm() -> None:
        nonlocal armed
        armed = True

    def trace(statement: str) -> None:
        nonlocal commits
        commits += armed and statement == "COMMIT"
        if commits == nth:
            _die()

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = real(*args, **kwargs)
        connection.set_trace_callback(trace)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    return arm


def _die() -> None:
    while True:
        os.kill(os.getpid(), signal.SIGKILL)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _hear() -> str:
    return sys.stdin.readline()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
