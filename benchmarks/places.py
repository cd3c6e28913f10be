"""
Where subjects put their data on a server.

A server has no directories, so a subject's directory holds a file with a name that is its own there:
of a database, or the beginning of keys. Who opens the directory again finds the same data. A copy of a
directory is another way to the same data, not another store.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

VARIABLE = "HOLDFAST_BENCH_URL"
"""The environment variable with the URL of the server that runs for the benchmark."""

_FILE = "place"


def server_url() -> str:
    """The URL of the server of this run."""
    return os.environ[VARIABLE]


def connection_of(url: str) -> dict[str, Any]:
    """What asyncmy's ``connect`` takes, which knows no URLs."""
    parts = urlsplit(url)
    return {
        "host": parts.hostname,
        "port": parts.port,
        "user": parts.username,
        "database": parts.path.strip("/"),
        "autocommit": True,
        "charset": "utf8mb4",
    }


@dataclass(frozen=True)
class Place:
    """A subject's own part of the server. ``fresh``: nobody has opened it yet."""

    name: str
    fresh: bool

    @classmethod
    def of(cls, directory: Path) -> Self:
        """The place that a directory stands for, chosen now if it has none."""
        file = directory / _FILE
        if file.exists():
            return cls(file.read_text(), False)
        name = f"bench_{os.urandom(8).hex()}"
        file.write_text(name)
        return cls(name, True)

    @property
    def url(self) -> str:
        """How Holdfast connects to it: a database, a prefix of keys, or one of objects."""
        parts = urlsplit(server_url())
        if parts.scheme == "redis":
            return urlunsplit(parts._replace(query=f"prefix={self.name}"))
        return urlunsplit(parts._replace(path=f"/{self.name}"))

    def sqlalchemy_url(self, driver: str) -> str:
        """How SQLAlchemy connects to it."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}+{driver}://{rest}"

    async def prepare(self) -> None:
        """Make its database, where it is one and not there."""
        if not self.fresh:
            return
        match urlsplit(server_url()).scheme:
            case "postgresql":
                await _postgres_database(self.name)
            case "mysql":
                await _mysql_database(self.name)


async def _postgres_database(name: str) -> None:
    import asyncpg  # type: ignore[import-untyped]

    connection = await asyncpg.connect(server_url())
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()


async def _mysql_database(name: str) -> None:
    import asyncmy

    connection = await asyncmy.connect(**connection_of(server_url()))
    async with connection.cursor() as cursor:
        await cursor.execute(f"CREATE DATABASE {name}")
    await connection.ensure_closed()
