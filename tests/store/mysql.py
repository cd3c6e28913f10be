"""Tables on the MariaDB server of the test run."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import asyncmy
from tests.servers import url_of

from holdfast.store import connect

TABLES = ("conversations", "profiles", "events", "calls", "records", "tags", "tokens", "words")


def new_prefix() -> str:
    """The URL of tables that nobody uses, not migrated. The test server does not sync."""
    return f"{url_of('mariadb')}?durability=os&prefix=t{os.urandom(4).hex()}_"


@cache
def _shared() -> str:
    url = new_prefix()
    asyncio.run(connect(url).migrate())
    return url


def empty_tables() -> str:
    """The URL of migrated tables without a row. They are the same ones for all tests of a process."""
    url = _shared()
    asyncio.run(raw(url, *(f"DELETE FROM {prefix_of(url)}{table}" for table in TABLES)))
    return url


def prefix_of(url: str) -> str:
    """The prefix that a URL of this module means."""
    return url.partition("prefix=")[2].partition("&")[0] or "holdfast_"


async def raw_connection(url: str) -> Any:
    """A connection of the driver, in the state in which the driver makes it."""
    parts = urlsplit(url)
    database = parts.path.strip("/")
    return await asyncmy.connect(
        host="127.0.0.1", port=parts.port or 3306, user="root", database=database, autocommit=True
    )


async def raw(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements of a test's own; the rows of the last one."""
    connection = await raw_connection(url)
    try:
        async with connection.cursor() as cursor:
            for statement in statements:
                await cursor.execute(statement)
            return list(await cursor.fetchall())
    finally:
        await connection.ensure_closed()


async def drop(url: str) -> None:
    """Remove the tables of a URL."""
    prefix = prefix_of(url)
    await raw(url, *(f"DROP TABLE IF EXISTS {prefix}{table}" for table in (*TABLES, "migrations")))
