"""The schema: what the server must be, which version it has, and how it gets the next one."""

from __future__ import annotations

from hashlib import blake2b
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from holdfast.clock import SECOND
from holdfast.errors import NotAStore, StoreError, StoreUnavailable, WeakerThanAsked
from holdfast.store.backend import Durability
from holdfast.store.sql.migrations import check_current, missing
from holdfast.store.sql.statements import Words, fill, load_scripts

PACKAGE = "holdfast.store.postgres"
OLDEST_SERVER = 130000
WINDOW = SECOND
ROW_SECURITY = "row_security"

_MICROSECONDS = "coalesce(:now::bigint, (date_part('epoch', {}) * 1000000)::bigint)"


def words_of(schema: str) -> Words:
    """What is filled into the SQL files for a schema."""
    return (
        ("s", f'"{schema}"'),
        ("schema", schema),
        ("now", _MICROSECONDS.format("clock_timestamp()")),
        ("begun", _MICROSECONDS.format("now()")),
        ("window", str(WINDOW)),
    )


def numbered(number: int) -> str:
    """A parameter as PostgreSQL writes it."""
    return f"${number}"


class Schema:
    """
    One schema of a database, and the scripts that lead to its current version.

    The methods leave the driver's errors to who gives the connection.
    """

    def __init__(self, url: str, name: str, queries: SimpleNamespace, *, row_security: bool) -> None:
        self._url = url
        self._name = name
        self._q = queries
        self._words = words_of(name)
        self._row_security = row_security

    def scripts(self) -> dict[str, str]:
        """The scripts by name, oldest first, each with a line that notes that it was run."""
        scripts = load_scripts(PACKAGE, self._words)
        if self._row_security:
            optional = files(PACKAGE).joinpath(f"{ROW_SECURITY}.sql").read_text("utf-8")
            scripts[ROW_SECURITY] = fill(optional, self._words)
        note = fill("INSERT INTO {s}.holdfast_migrations (name) VALUES ('%s');\n", self._words)
        return {name: f"{script}\n{note % name}" for name, script in scripts.items()}

    async def check(self, connection: Any, durability: Durability) -> None:
        """
        Refuse a server that can't keep the contract, or has another version of the schema.

        Raises:
            SchemaOutdated: It still needs a migration.
            SchemaTooNew: It had migrations that this version does not know.
            WeakerThanAsked: It may lose commits that ``durability`` says survive.
        """
        state = await connection.fetchrow(self._q.state.sql)
        number, encoding, fsync, synchronous, standbys, recovering, *_ = state
        if number < OLDEST_SERVER:
            raise StoreError(f"{self._url} is PostgreSQL {number // 10000}; holdfast needs 13 or newer")
        if encoding != "UTF8":
            raise NotAStore(f"{self._url} has the encoding {encoding}; holdfast needs a database with UTF8")
        if recovering:
            raise StoreUnavailable(f"{self._url} is a standby that only reads; connect to the primary")
        if durability != "os" and (fsync, synchronous) not in _SYNCED:
            raise WeakerThanAsked(
                f"{self._url} runs with fsync={fsync} and synchronous_commit={synchronous}: what it acknowledges can be "
                "lost. Turn them on, or say ?durability=os"
            )
        if durability == "replicated" and not (standbys and synchronous in ("on", "remote_apply")):
            raise WeakerThanAsked(
                f"{self._url} does not wait for a standby (synchronous_standby_names={standbys!r}, "
                f"synchronous_commit={synchronous}); set them, or say ?durability=disk"
            )
        check_current(self.scripts(), await self._applied(connection, state), self._url)
        if await connection.fetchval(self._q.filtered.sql):
            raise StoreError(
                f"{self._url}: row security hides the tables from this role; connect as their owner, "
                "or give the role BYPASSRLS"
            )

    async def pending(self, connection: Any) -> list[str]:
        """The scripts that a migration would run."""
        applied = await self._applied(connection, await connection.fetchrow(self._q.state.sql))
        return list(missing(self.scripts(), applied, self._url).values())

    async def migrate(self, connection: Any) -> None:
        """Run the scripts that the schema lacks, all of them or none, while nobody else does."""
        lock = int.from_bytes(blake2b(self._name.encode(), digest_size=8).digest(), "big", signed=True)
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", lock)
            # Another process may have done it while this one waited for the lock.
            for script in await self.pending(connection):
                await connection.execute(script)

    async def _applied(self, connection: Any, state: Any) -> list[str]:
        ours, theirs = state[-2:]
        if not ours:
            if theirs:
                raise NotAStore(
                    f"{self._url}: schema {self._name} has a table conversations that is not ours; "
                    "choose another with ?schema="
                )
            return []
        return [row[0] for row in await connection.fetch(self._q.applied.sql)]


_SYNCED = {("on", level) for level in ("on", "local", "remote_write", "remote_apply")}
