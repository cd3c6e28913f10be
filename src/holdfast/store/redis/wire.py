"""
One connection to one server, shared by everybody.

Commands go out as they come, all that is queued in one write, and the answers come back in the same
order. A server that syncs does so once for all that it read together: this is its group commit.
Whoever stops waiting for an answer disturbs nobody, because the connection is read by a task of its own.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from holdfast.store.redis.link import Link

Command = tuple[bytes, ...]

MAX_PENDING = 1024
MAX_WRITE = 1 << 20

# Answers that the driver takes for broken connections. They are answers, and what comes after them is too.
_REFUSALS = (AuthenticationError, AuthorizationError, BusyLoadingError)


class Unsent(Exception):
    """The server never got the command."""


class Crowded(Unsent):
    """Too many commands wait for their answers already."""


class Unanswered(Exception):
    """The server may have carried the command out; nobody knows."""


class Wire:
    """
    Sends commands over a connection that is made when it is needed, and made anew when it broke.

    At most ``MAX_PENDING`` commands wait for their answers; further ones wait for room.
    """

    def __init__(self, dial: Callable[[], Awaitable[Link]], *, timeout: float, replicas: int = 0) -> None:
        self._dial = dial
        self._timeout = timeout
        self._replicas = replicas
        self._line: _Line | None = None
        self._dialling = asyncio.Lock()
        self._room = asyncio.Semaphore(MAX_PENDING)

    async def connect(self) -> None:
        """
        Make the connection, if there is none.

        Raises:
            Unsent: The server can't be reached.
        """
        await self._connected()

    async def call(self, *commands: Command, writes: bool = False) -> Any:
        """
        Send commands, one right after the other, and give the answer of the last.

        What ``writes`` is answered when as many replicas as the wire asks for have confirmed it.

        Raises:
            Unsent: The server never got them.
            Crowded: There was no room in time.
            Unanswered: It may have carried them out.
            RedisError: It refused the last one.
        """
        if self._room.locked():
            await self._wait_for_room()
        else:
            await self._room.acquire()
        try:
            line = self._line if self._line is not None and self._line.alive else await self._connected()
        except BaseException:
            self._room.release()
            raise
        return await line.ask(commands, writes)

    async def close(self) -> None:
        """Let go of the connection."""
        if self._line is not None:
            await self._line.close()
            self._line = None

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._room.acquire()
        except TimeoutError:
            raise Crowded(
                f"{MAX_PENDING} commands wait for their answers, and none came within {self._timeout:g} s"
            ) from None

    async def _connected(self) -> _Line:
        async with self._dialling:
            if self._line is None or not self._line.alive:
                try:
                    connection = await self._dial()
                except (AuthenticationError, ResponseError):
                    raise
                except (RedisError, OSError, TimeoutError) as exc:
                    raise Unsent(str(exc) or "the server does not answer") from exc
                self._line = _Line(connection, self._timeout, self._replicas, self._room)
            return self._line


class _Request:
    """Commands and who waits for their answer. One for ``WAIT`` holds back the answers that it confirms."""

    __slots__ = ("answer", "commands", "future", "held", "left", "sent_at", "writes")

    def __init__(self, commands: Sequence[Command], future: asyncio.Future[Any], writes: bool) -> None:
        self.commands, self.future, self.writes = commands, future, writes
        self.left = len(commands)
        self.sent_at = math.inf
        self.answer: Any = None
        self.held: list[_Request] = []


class _Line:
    """A connection while it lives."""

    def __init__(self, connection: Link, timeout: float, replicas: int, room: asyncio.Semaphore) -> None:
        self.alive = True
        self._connection = connection
        self._timeout = timeout
        self._room = room
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Request] = deque()
        self._sent: deque[_Request] = deque()
        self._news = asyncio.Event()
        self._heard_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = [self._loop.create_task(self._send()), self._loop.create_task(self._receive())]

    def ask(self, commands: Sequence[Command], writes: bool) -> asyncio.Future[Any]:
        """Queue commands; the future gets the answer of the last one."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.append(_Request(commands, future, writes))
        self._news.set()
        return future

    async def close(self) -> None:
        """Cut the connection; what still waits for an answer gets none."""
        self._break(RedisError("the store was closed"))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                chunks = self._next_write()
                if self._timer is None:
                    self._timer = self._loop.call_later(self._timeout, self._check)
                try:
                    await self._connection.send_packed_command(chunks, check_health=False)
                except (RedisError, OSError) as exc:
                    self._break(exc)
                    return

    def _next_write(self) -> list[bytes]:
        chunks: list[bytes] = []
        held: list[_Request] = []
        size, now = 0, self._loop.time()
        while self._queue and size < MAX_WRITE:
            request = self._queue.popleft()
            request.sent_at = now
            self._sent.append(request)
            for command in request.commands:
                chunks.append(packed(command))
                size += len(chunks[-1])
            request.commands = ()
            if request.writes and self._replicas:
                held.append(request)
        if held:
            wait = (b"WAIT", b"%d" % self._replicas, b"%d" % (self._timeout * 500))
            confirm = _Request((wait,), self._loop.create_future(), False)
            confirm.sent_at, confirm.held = now, held
            self._sent.append(confirm)
            chunks.append(packed(wait))
        return chunks

    async def _receive(self) -> None:
        while True:
            answer: Any
            try:
                answer = await self._connection.read_response(
                    disable_decoding=True, disconnect_on_error=False
                )
            except (ResponseError, *_REFUSALS) as exc:
                answer = exc
            except (RedisError, OSError) as exc:
                self._break(exc)
                return
            self._heard_at = self._loop.time()
            if not self._sent:
                self._break(answer if isinstance(answer, Exception) else RedisError("an answer to nothing"))
                return
            request = self._sent[0]
            request.left -= 1
            if not request.left:
                self._sent.popleft()
                if request.held:
                    self._confirm(request.held, answer)
                elif request.writes and self._replicas:
                    request.answer = answer
                else:
                    self._answer(request, answer)

    def _confirm(self, held: list[_Request], replicas: Any) -> None:
        for request in held:
            if type(replicas) is int and replicas >= self._replicas:
                self._answer(request, request.answer)
            else:
                self._answer(
                    request, Unanswered(f"{replicas} of {self._replicas} replicas confirmed it in time")
                )

    def _answer(self, request: _Request, answer: Any) -> None:
        self._room.release()
        if request.future.done():
            return
        if isinstance(answer, Exception):
            request.future.set_exception(answer)
        else:
            request.future.set_result(answer)

    def _check(self) -> None:
        """Give up on what waited too long, and on the connection if nothing at all was heard."""
        self._timer = None
        if not self._sent:
            return
        now = self._loop.time()
        late = RedisTimeoutError(f"no answer within {self._timeout:g} s")
        if max(self._heard_at, self._sent[0].sent_at) + self._timeout <= now:
            self._break(late)
            return
        for request in self._sent:
            if request.sent_at + self._timeout > now:
                break
            if not request.future.done():
                request.future.set_exception(_unanswered(late))
        waiting = next((r.sent_at for r in self._sent if not r.future.done()), now)
        self._timer = self._loop.call_at(max(waiting + self._timeout, now + 0.01), self._check)

    def _break(self, why: Exception) -> None:
        if not self.alive:
            return
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
        self._connection.cut()
        # Whoever waits for replicas may be there twice: alone, and held back.
        for request in dict.fromkeys(held for sent in self._sent for held in sent.held or (sent,)):
            self._answer(request, _unanswered(why))
        for request in self._queue:
            self._answer(request, Unsent(str(why)))
        self._sent.clear()
        self._queue.clear()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()


def packed(command: Command) -> bytes:
    """A command as the server reads it."""
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        parts += (b"$%d\r\n" % len(argument), argument, b"\r\n")
    return b"".join(parts)


def _unanswered(why: Exception) -> Unanswered:
    error = Unanswered(str(why))
    error.__cause__ = why
    return error
