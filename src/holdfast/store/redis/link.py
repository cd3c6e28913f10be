"""Connections of the driver, as a shared wire needs them: without retries, and with a quick end."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection

from holdfast.store.redis.url import Address, RedisUrl


class Link(Connection):
    """A connection of the driver that can be cut at once, and does not come back."""

    is_cut = False

    def cut(self) -> None:
        """End it now: what is not sent yet must not reach a server that wakes up later."""
        self.is_cut = True
        if self._writer is not None:
            self._writer.transport.abort()
            self._close()  # type: ignore[no-untyped-call]

    async def _connect(self) -> None:
        # The driver connects anew when it is to send something, and nobody would read the answers.
        if self.is_cut:
            raise ConnectionAbortedError("the connection was cut")
        await super()._connect()  # type: ignore[no-untyped-call]


class SecureLink(SSLConnection, Link):
    """The same over TLS."""


async def dial(url: RedisUrl, address: Address) -> Link:
    """
    Connect, authenticate, and choose the database.

    Raises:
        RedisError: The server can't be reached, or refuses us.
        TimeoutError: It does not answer in time.
    """
    options: dict[str, Any] = {
        "host": address[0],
        "port": address[1],
        "db": url.db,
        "username": url.user,
        "password": url.password,
        "protocol": 2,
        "socket_timeout": None,
        "socket_connect_timeout": url.timeout,
        "socket_keepalive": True,
    }
    link = SecureLink(**options, **url.tls) if url.secure else Link(**options)
    try:
        async with asyncio.timeout(url.timeout):
            await link.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        link.cut()
        raise
    return link
