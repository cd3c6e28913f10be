"""Schemas on the PostgreSQL server of the test run."""

from __future__ import annotations

import asyncio
import os
from functools import cache

import asyncpg  # type: ignore[import-untyped]
from tests.servers import url_of

from holdfast.store import connect

TABLES = ("conversations", "profiles", "events", "calls", "records", "tags", "tokens", "texts")


def new_schema() -> str:
    """The URL of a schema that nobody uses, not migrated. The test server does not sync."""
    return f"{url_of('postgres')}?durability=os&schema=test_{os.urandom(6).hex()}"


@cache
def _shared() -> str:
    url = new_schema()
    asyncio.run(connect(url).migrate())
    return url


def empty_schema() -> str:
    """The URL of a migrated schema without a row. It is the same one for all tests of a process."""
    url = _shared()
    asyncio.run(_empty(schema_of(url)))
    return url


async def _empty(schema: str) -> None:
    raw = await asyncpg.connect(url_of("postgres"))
    await raw.execute("".join(f"DELETE FROM {schema}.{table};" for table in TABLES))
    await raw.close()


def schema_of(url: str) -> str:
    """The name of the schema that a URL of this module means."""
    return url.partition("schema=")[2].partition("&")[0]
