"""A proxy in front of an S3 server, that counts requests and loses answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit


class Proxy:
    """
    Passes requests on, one by one.

    ``requests`` has a line like ``PUT /bucket/name`` for each. An answer that ``loses`` says yes to
    is thrown away together with the connection: the server has done what it was asked for.
    """

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self._upstream = parts.hostname, parts.port
        self.requests: list[str] = []
        self.loses: Callable[[str], bool] = lambda request: False
        self.endpoint = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            await self.drop()

    async def drop(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._relay(reader, writer)
        writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        try:
            while True:
                head, body = await _message(reader)
                method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
                request = f"{method} {path}"
                self.requests.append(request)
                up_writer.write(head + body)
                await up_writer.drain()
                head, body = await _message(up_reader, empty=method == "HEAD")
                if self.loses(request):
                    return
                writer.write(head + body)
                await writer.drain()
        finally:
            up_writer.close()


async def _message(reader: asyncio.StreamReader, *, empty: bool = False) -> tuple[bytes, bytes]:
    """The head and the body of a request or an answer, as they were sent."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    if empty or lines[0].endswith((" 204 no content", " 304 not modified")):
        return head, b""
    if "content-length" in fields:
        return head, await reader.readexactly(int(fields["content-length"]))
    if fields.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            size = await reader.readuntil(b"\r\n")
            chunk = await reader.readexactly(int(size, 16) + 2)
            body += size + chunk
            if size == b"0\r\n":
                return head, body
    return head, b""
