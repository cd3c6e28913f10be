"""The schema: what the server must be, which version it has, and how it gets the next one."""

from __future__ import annotations

import re
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

from asyncmy.errors import MySQLError

from holdfast.clock import SECOND
from holdfast.errors import NotAStore, StoreError, StoreUnavailable, WeakerThanAsked
from holdfast.store.backend import Durability
from holdfast.store.mysql.driver import PATIENT_SECONDS, send
from holdfast.store.mysql.faults import DONE_BEFORE, code_of
from holdfast.store.mysql.literals import written
from holdfast.store.sql.database import Row
from holdfast.store.sql.migrations import check_current, missing
from holdfast.store.sql.statements import Words, load_scripts

PACKAGE = "holdfast.store.mysql"
OLDEST_MYSQL, OLDEST_MARIADB = (8, 0), (10, 6)
LEAST_PACKET = 16 << 20
ROOM_FOR_OTHERS = 4 << 20
WINDOW = SECOND

_ENGINE = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
_NOW = "COALESCE(:now, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED))"
_STATEMENT = re.compile(r"(?:--[^\n]*\n|[^;])+;\n")


def words_of(prefix: str) -> Words:
    """What is filled into the SQL files for a prefix."""
    return (("p", prefix), ("engine", _ENGINE), ("now", _NOW), ("window", str(WINDOW)))


class Schema:
    """
    The tables of one prefix, and the scripts that lead to their current version.

    The methods leave the driver's errors to who gives the connection.
    """

    def __init__(self, url: str, prefix: str, queries: SimpleNamespace) -> None:
        self._url = url
        self._prefix = prefix
        self._q = queries

    def scripts(self) -> dict[str, str]:
        """The scripts by name, oldest first, each with a line that notes that it was run."""
        note = f"INSERT INTO {self._prefix}migrations (name) VALUES ('%s');\n"
        scripts = load_scripts(PACKAGE, words_of(self._prefix))
        return {name: f"{script}\n{note % name}" for name, script in scripts.items()}

    async def check(self, connection: Any, durability: Durability) -> int:
        """
        Refuse a server that can't keep the contract, or has another version of the schema.

        Returns how many bytes a commit may have.

        Raises:
            SchemaOutdated: It still needs a migration.
            SchemaTooNew: It had migrations that this version does not know.
            WeakerThanAsked: It may lose commits that ``durability`` says survive.
        """
        state = await self._state(connection)
        version, flush, binlog, sync_binlog, packet, read_only, page, *_ = state
        oldest = OLDEST_MARIADB if "MariaDB" in version else OLDEST_MYSQL
        if tuple(int(part) for part in version.split(".")[:2]) < oldest:
            raise StoreError(f"{self._url} is {version}; holdfast needs MySQL 8.0, MariaDB 10.6 or newer")
        if read_only not in (0, "OFF"):
            raise StoreUnavailable(f"{self._url} is a server that only reads; connect to the primary")
        if page < 16 << 10:
            raise StoreError(f"{self._url} has innodb_page_size={page}; holdfast needs 16384 or more")
        if packet < LEAST_PACKET:
            raise StoreError(
                f"{self._url} has max_allowed_packet={packet}; holdfast needs {LEAST_PACKET} or more"
            )
        if durability != "os" and (flush != 1 or (binlog and sync_binlog != 1)):
            raise WeakerThanAsked(
                f"{self._url} runs with innodb_flush_log_at_trx_commit={flush}, log_bin={binlog} and "
                f"sync_binlog={sync_binlog}: what it acknowledges can be lost. Set both to 1, or say ?durability=os"
            )
        check_current(self.scripts(), await self._applied(connection, state), self._url)
        # Quotes and backslashes are written as two bytes.
        most: int = (packet - ROOM_FOR_OTHERS) // 2
        return most

    async def pending(self, connection: Any) -> list[str]:
        """The scripts that a migration would run."""
        applied = await self._applied(connection, await self._state(connection))
        return list(missing(self.scripts(), applied, self._url).values())

    async def migrate(self, connection: Any) -> None:
        """
        Run the scripts that the schema lacks, while nobody else does.

        The servers can't undo a change of tables. What stops halfway is gone on with at the next try:
        what was done before is left as it is.
        """
        state = await self._state(connection)
        place = blake2b(f"{state[7]}/{self._prefix}".encode(), digest_size=16).hexdigest()
        lock = written(self._q.lock, name=f"holdfast_{place}", seconds=PATIENT_SECONDS)
        [got] = await send(connection, lock)
        if got.rows[0][0] != 1:
            raise StoreUnavailable(f"{self._url}: another process has been migrating for an hour")
        # Another process may have done it while this one waited for the lock.
        for script in await self.pending(connection):
            for statement in _STATEMENT.findall(script):
                try:
                    await send(connection, statement.strip().rstrip(";").encode())
                except MySQLError as exc:
                    if code_of(exc) not in DONE_BEFORE:
                        raise

    async def _state(self, connection: Any) -> Row:
        [found] = await send(connection, written(self._q.state))
        return found.rows[0]

    async def _applied(self, connection: Any, state: Row) -> list[str]:
        ours, theirs = state[-2:]
        if not ours:
            if theirs:
                raise NotAStore(
                    f"{self._url} has a table {self._prefix}conversations that is not ours; "
                    "choose other names with ?prefix="
                )
            return []
        [applied] = await send(connection, written(self._q.applied))
        return [row[0] for row in applied.rows]
