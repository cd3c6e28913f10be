"""What the PostgreSQL store acknowledged survives the death of the processes that wrote it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.servers.postgres import Postgres

from holdfast.store import connect
from holdfast.testing.crash import CrashConformance, Points

from .postgres_points import ANSWERED, SENT, install


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server of this file's own, that keeps its syncs."""
    server = Postgres(durable=True)
    server.start()
    yield server
    server.stop()


@pytest.mark.server("postgres")
class TestPostgresCrashes(CrashConformance):
    kills = 12
    points = Points((SENT, ANSWERED), install)

    @pytest.fixture
    def url(self, server: Postgres) -> str:
        asyncio.run(connect(server.url).migrate())
        return server.url
