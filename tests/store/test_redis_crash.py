"""The Redis store survives SIGKILL of whoever writes to it, at any point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.servers.valkey import Valkey

from holdfast.testing.crash import CrashConformance, Points

SENT, HEARD = "after a write", "after an answer"


def install(reach: Callable[[str], None], url: str) -> None:
    """Pass by the points whenever something is sent to the server, and when it answered."""
    from holdfast.store.redis.link import Link

    send, read = Link.send_packed_command, Link.read_response

    async def sending(self: Link, *args: Any, **kwargs: Any) -> None:
        await send(self, *args, **kwargs)
        reach(SENT)

    async def reading(self: Link, *args: Any, **kwargs: Any) -> Any:
        answer = await read(self, *args, **kwargs)
        reach(HEARD)
        return answer

    Link.send_packed_command = sending  # type: ignore[method-assign,assignment]
    Link.read_response = reading  # type: ignore[method-assign,assignment]


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    server = Valkey(durable=True)
    server.start()
    yield server
    server.stop()


@pytest.mark.server("valkey")
class TestRedis(CrashConformance):
    kills = 10
    points = Points((SENT, HEARD), install)

    @pytest.fixture
    def url(self, server: Valkey) -> str:
        return f"{server.url}?prefix={uuid4().hex}&shards=4"
