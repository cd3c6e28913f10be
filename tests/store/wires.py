"""What stands between a client and its server: a wire that can be cut, and a proxy that pools transactions."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]

QUIET_SECONDS = 0.5
SSL_REQUEST = 80877103
CANCEL_REQUEST = 80877102
READY = b"Z\0\0\0\x05I"
ALLOWED_AT_START = {"user", "database", "client_encoding", "application_name"}


class Wire:
    """
    A wire to a server on loopback.

    While it is ``silent`` nothing passes, and nobody is told. A request with the bytes ``fatal`` in it
    passes, but its answer does not: the connection is lost when the server has answered.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._ends: set[asyncio.StreamWriter] = set()
        self.silent = False
        self.fatal: bytes | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()

    def through(self, url: str) -> str:
        """The URL of a server, by this wire."""
        return _with_port(url, self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Lose every connection that there is; new ones can be made."""
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, to_server}
        self._ends |= ends
        doomed = asyncio.Event()
        passing = (
            asyncio.create_task(self._requests(reader, to_server, doomed)),
            asyncio.create_task(self._answers(from_server, writer, doomed)),
        )
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        for task in passing:
            task.cancel()
        for end in ends:
            end.transport.abort()
        self._ends -= ends

    async def _requests(
        self, client: asyncio.StreamReader, server: asyncio.StreamWriter, doomed: asyncio.Event
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await client.read(1 << 16):
                if self.fatal is not None and self.fatal in data:
                    doomed.set()
                if not self.silent:
                    server.write(data)

    async def _answers(
        self, server: asyncio.StreamReader, client: asyncio.StreamWriter, doomed: asyncio.Event
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while (data := await server.read(1 << 16)) and not doomed.is_set():
                if not self.silent:
                    client.write(data)
            # An answer comes in pieces if it is about several statements.
            with contextlib.suppress(TimeoutError):
                while data:
                    data = await asyncio.wait_for(server.read(1 << 16), QUIET_SECONDS)


class Pooler:
    """
    A proxy that gives each transaction the next of a few connections, as PgBouncer does.

    ``named`` counts statements that a client wanted to keep on its connection.
    """

    def __init__(self, url: str, *, connections: int = 2) -> None:
        self._parts = urlsplit(url)
        self._count = connections
        self.named = 0
        self.served: list[set[int]] = []

    def __enter__(self) -> Self:
        started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        self._port = started.result(timeout=30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        """The server's URL, by this proxy."""
        return _with_port(urlunsplit(self._parts), self._port)

    async def _serve(self, started: Future[int]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._free: asyncio.Queue[tuple[int, Pair]] = asyncio.Queue()
        for number in range(self._count):
            pair, self._greeting = await self._log_in()
            self._free.put_nowait((number, pair))
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        started.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def _log_in(self) -> tuple[Pair, bytes]:
        assert self._parts.port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self._parts.port)
        self._writers.add(writer)
        names = {"user": self._parts.username or "", "database": self._parts.path[1:]}
        body = b"".join(f"{k}\0{v}\0".encode() for k, v in names.items()) + b"\0"
        writer.write(struct.pack("!ii", len(body) + 8, 196608) + body)
        greeting = b""
        while (message := await _message(reader)) != READY:
            greeting += message
        return (reader, writer), greeting + READY

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            if await self._greet(reader, writer):
                await self._transactions(reader, writer)
        writer.transport.abort()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            body = await reader.readexactly(length - 8)
            if code == SSL_REQUEST:
                writer.write(b"N")
                continue
            if code == CANCEL_REQUEST:
                return False
            words = body.rstrip(b"\0").split(b"\0")[::2]
            assert {word.decode() for word in words} <= ALLOWED_AT_START, words
            writer.write(self._greeting)
            return True

    async def _transactions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        used: set[int] = set()
        self.served.append(used)
        while (message := await _message(reader))[:1] != b"X":
            async with self._server(used) as (from_server, to_server):
                done = False
                while not done:
                    answering = asyncio.create_task(_answer(from_server, writer))
                    try:
                        await self._until_sync(message, reader, to_server)
                        done = await answering
                    finally:
                        answering.cancel()
                    if not done:
                        message = await _message(reader)

    async def _until_sync(
        self, message: bytes, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        while True:
            # A statement has a name if it is to be used again.
            self.named += message[:1] == b"P" and message[5:6] != b"\0"
            to_server.write(message)
            if message[:1] in (b"S", b"Q"):
                return
            message = await _message(reader)

    @contextlib.asynccontextmanager
    async def _server(self, used: set[int]) -> AsyncIterator[Pair]:
        number, pair = await self._free.get()
        used.add(number)
        try:
            yield pair
        except BaseException:
            # The client left in the middle of something; nobody else may get the rest of it.
            pair[1].close()
            pair, _ = await self._log_in()
            raise
        finally:
            self._free.put_nowait((number, pair))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Pass answers on until the server is ready again; True if it is in no transaction."""
    while True:
        message = await _message(reader)
        writer.write(message)
        if message[:1] == b"Z":
            return message == READY


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


def _with_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{port}"))
