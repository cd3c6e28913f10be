"""What the MySQL store acknowledged survives the death of the processes that wrote it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.servers.mariadb import MariaDB

from holdfast.store import connect
from holdfast.testing.crash import CrashConformance, Points

from .mysql_points import ANSWERED, SENT, install


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    """A server of this file's own, that keeps its syncs."""
    server = MariaDB(durable=True)
    server.start()
    yield server
    server.stop()


@pytest.mark.server("mariadb")
class TestMySQLCrashes(CrashConformance):
    kills = 12
    points = Points((SENT, ANSWERED), install)

    @pytest.fixture
    def url(self, server: MariaDB) -> str:
        asyncio.run(connect(server.url).migrate())
        return server.url
