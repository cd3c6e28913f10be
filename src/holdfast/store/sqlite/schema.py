"""Opening database files: connections, the schema and its versions."""

from __future__ import annotations

import os
import sqlite3
import time
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from holdfast.errors import NotAStore, SchemaOutdated, SchemaTooNew, StoreUnavailable

APPLICATION_ID = 0x48464C44
BUSY_SECONDS = 30.0


def migrations() -> list[str]:
    """The scripts that lead from an empty file to the current schema, oldest first."""
    folder = files(__package__).joinpath("migrations")
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [stamped(script.read_text("utf-8"), number) for number, script in enumerate(scripts, 1)]


def stamped(script: str, number: int) -> str:
    """A script that also says which version it leads to, so that it can be run by hand."""
    return f"{script}\nPRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {number};\n"


def connect(path: Path, *, durability: str) -> sqlite3.Connection:
    """A connection for this package's use: explicit transactions, any thread, one at a time."""
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'disk' else 'NORMAL'}")
    # A WAL that grew in a burst goes back to this size at the next checkpoint.
    connection.execute("PRAGMA journal_size_limit = 67108864")
    return connection


def pending(path: Path, url: str) -> list[str]:
    """The scripts that the file still needs. It is only read, and not made if it is not there."""
    scripts = migrations()
    if not path.exists():
        return scripts
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    try:
        found = version(connection, url)
    finally:
        connection.close()
    if found > len(scripts):
        raise SchemaTooNew(url, found=found, wanted=len(scripts))
    return scripts[found:]


def prepare(path: Path, url: str, *, migrate: bool) -> None:
    """
    Make the file a current database, or say why it is none.

    An empty or absent file gets the current schema. An older one is changed only if ``migrate``
    says so. Any number of processes may do this at once.

    Raises:
        NotAStore: The file holds something else.
        SchemaOutdated: It is older, and ``migrate`` is False.
        SchemaTooNew: It is newer.
    """
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{url} can't be opened: the directory {path.parent} does not exist")
    if path.is_dir():
        raise NotAStore(f"{url} names a directory; name a file in it")
    connection = connect(path, durability="disk")
    try:
        scripts = migrations()
        found = version(connection, url)
        if found > len(scripts):
            raise SchemaTooNew(url, found=found, wanted=len(scripts))
        if 0 < found < len(scripts) and not migrate:
            raise SchemaOutdated(url, found=found, wanted=len(scripts))
        _use_wal(connection)
        if found < len(scripts):
            upgrade(connection, url, scripts)
    finally:
        connection.close()
    _sync_directory(path.parent)


def version(connection: sqlite3.Connection, url: str) -> int:
    """
    The schema version of a database; 0 if it is empty.

    Raises:
        NotAStore: It belongs to another application.
    """
    # One statement, one moment: another process may be making the schema right now.
    ours, found, things = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),"
        " (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if ours != APPLICATION_ID:
        if things:
            raise NotAStore(f"{url} is a database of another application; choose another path")
        return 0
    return int(found)


def upgrade(connection: sqlite3.Connection, url: str, scripts: list[str]) -> None:
    """Run the scripts that the database lacks, all of them or none, while nobody else does."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        for script in scripts[version(connection, url) :]:
            for statement in statements(script):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has rolled it back already, and a second time would be the error that is seen.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def statements(script: str) -> list[str]:
    """The statements of a script, one by one (``executescript`` would commit in between)."""
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement.strip())
            statement = ""
    return found


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; of many first openers, SQLite lets all but one fail at once."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            if mode == "wal":
                return
            raise StoreUnavailable(f"the file system can't hold a write-ahead log (journal mode is {mode})")
        time.sleep(0.005)


def _sync_directory(folder: Path) -> None:
    """Make the file's name durable too; a file that exists only in the cache can vanish with the power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
