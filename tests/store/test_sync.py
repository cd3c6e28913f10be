"""What the SQLite store acknowledged survives loss of power, and the proof finds the stores where it does not."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.store import Store, connect
from holdfast.store.sqlite import SQLiteStore
from holdfast.testing import vfs
from holdfast.testing.sync import Answered, Disk, Keep, NamesSynced, PowerCut, Synced


def synced(folder: Path) -> Store:
    return connect(f"sqlite:///{folder}/a.db")


def not_synced(folder: Path) -> Store:
    return connect(f"sqlite:///{folder}/a.db?durability=os")


def never_synced(folder: Path) -> Store:
    class Careless(SQLiteStore):
        def _connect(self) -> sqlite3.Connection:
            connection = super()._connect()
            connection.execute("PRAGMA synchronous = OFF")
            return connection

    return Careless(f"sqlite:///{folder}/a.db")


def checkpoint(power: PowerCut) -> None:
    """Move what is in the log into the database file, under the eyes of the recording."""
    with contextlib.closing(sqlite3.connect(power.live / "a.db")) as connection:
        busy, frames, moved = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    assert (busy, frames) == (0, moved)
    assert moved > 0


async def worked(make: Callable[[Path], Store], folder: Path) -> PowerCut:
    """A recording with commits one by one, 64 at once, checkpoints between them, and a second start."""
    power = PowerCut(make, folder)
    with power.recording():
        async with power.store() as store:
            for _ in range(4):
                await power.commit(store)
            checkpoint(power)
            await power.commit(store, together=64)
            checkpoint(power)
            await power.commit(store, together=64)
        async with power.store() as store:
            for _ in range(4):
                await power.commit(store)
    return power


@pytest.mark.anyio
async def test_what_was_acknowledged_survives_loss_of_power(tmp_path: Path) -> None:
    power = await worked(synced, tmp_path)

    report = await power.prove(cuts=60)

    assert report.problems == []
    assert report.acknowledged > 1000
    assert report.cuts >= 60
    assert sum(isinstance(step, Synced) for step in power.disk.steps) < 64, "64 at once share their syncs"


@pytest.mark.anyio
async def test_the_first_commit_of_a_new_file_survives_loss_of_power_by_its_name_too(tmp_path: Path) -> None:
    power = PowerCut(synced, tmp_path)
    with power.recording():
        async with power.store() as store:
            await power.commit(store)
    [first] = power.after_answers(1)

    report = await power.cut("nothing", [first])

    assert report.ok, report.problems
    assert report.acknowledged == 1


@pytest.mark.anyio
async def test_without_a_sync_of_the_folder_the_first_commit_goes_with_its_name(tmp_path: Path) -> None:
    power = PowerCut(synced, tmp_path)
    with power.recording():
        async with power.store() as store:
            await power.commit(store)
    power.disk.steps = [step for step in power.disk.steps if not isinstance(step, NamesSynced)]

    report = await power.cut("nothing", power.after_answers(1))

    assert report.lost == 1


@pytest.mark.anyio
async def test_loss_of_power_while_the_file_is_made_leaves_one_that_opens(tmp_path: Path) -> None:
    power = PowerCut(synced, tmp_path)
    with power.recording():
        async with power.store():
            created = len(power.disk.steps)
        async with power.store() as store:
            await power.commit(store)

    nothing = await power.cut("nothing", power.any_steps(15, until=created))
    some = await power.cut("some", power.any_steps(25, until=created))

    assert nothing.problems == []
    assert some.problems == []


@pytest.mark.anyio
@pytest.mark.parametrize("make", [not_synced, never_synced])
async def test_a_store_that_does_not_sync_is_found_to_lose(
    make: Callable[[Path], Store], tmp_path: Path
) -> None:
    power = await worked(make, tmp_path)

    report = await power.cut("nothing", power.after_answers(10))

    assert report.lost > 0
    assert not report.ok


@pytest.mark.anyio
async def test_durability_os_survives_the_process_and_not_the_power(tmp_path: Path) -> None:
    power = await worked(not_synced, tmp_path)

    killed = await power.cut("everything", power.after_answers(10))
    cut = await power.cut("nothing", power.after_answers(10))

    assert killed.ok, killed.problems
    assert cut.lost > 0
    assert (cut.half, cut.refused) == (0, 0)


@pytest.mark.anyio
async def test_a_commit_whose_sync_fails_is_not_acknowledged(tmp_path: Path) -> None:
    class Failing(Disk):
        broken = False

        def sync(self, file: int, proceed: Callable[[], None]) -> None:
            if self.broken:
                raise vfs.Refused(sqlite3.SQLITE_IOERR)
            super().sync(file, proceed)

    power = PowerCut(synced, tmp_path)
    power.disk = disk = Failing(power.live)
    with power.recording():
        async with power.store() as store:
            await power.commit(store)
            disk.broken = True
            with pytest.raises(StoreUnavailable):
                await power.commit(store)
            disk.broken = False
            await power.commit(store)

    report = await power.cut("nothing", power.after_answers(9))

    assert report.ok, report.problems


@pytest.mark.anyio
async def test_a_recording_that_saw_nothing_proves_nothing(tmp_path: Path) -> None:
    power = PowerCut(synced, tmp_path)
    async with power.store() as store:
        await power.commit(store)

    with pytest.raises(vfs.Untappable, match="not one write was seen"):
        await power.prove()


@pytest.mark.anyio
async def test_a_sqlite_that_cannot_be_reached_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hidden:
        def __init__(self, where: str | None) -> None: ...

    monkeypatch.setattr("ctypes.CDLL", Hidden)

    with (
        pytest.raises(vfs.Untappable, match="hides the SQLite library"),
        PowerCut(synced, tmp_path).recording(),
    ):
        pass


def test_only_what_was_synced_is_sure_to_be_there(tmp_path: Path) -> None:
    live, left = tmp_path / "live", tmp_path / "left"
    live.mkdir()
    left.mkdir()
    (live / "old").write_bytes(b"old")
    disk = Disk(live)

    old, new = disk.opened(live / "old", created=False), disk.opened(live / "new", created=True)
    _write(disk, old, 3, b"er")
    _write(disk, new, 0, b"new")
    disk.sync(new, _done)
    _write(disk, new, 3, b"er")
    before_names = len(disk.steps)
    disk.sync_names(live, _done)
    disk.cut(before_names, left, Keep("nothing"))
    without_names = _files(left)
    disk.cut(len(disk.steps), left, Keep("nothing"))
    nothing = _files(left)
    disk.cut(len(disk.steps), left, Keep("everything"))
    everything = _files(left)

    assert without_names == {"old": b"old"}
    assert nothing == {"old": b"old", "new": b"new"}
    assert everything == {"old": b"older", "new": b"newer"}


def test_a_sync_does_not_cover_what_is_written_while_it_runs(tmp_path: Path) -> None:
    live, left = tmp_path / "live", tmp_path / "left"
    live.mkdir()
    left.mkdir()
    (live / "file").write_bytes(b"old")
    disk = Disk(live)
    file = disk.opened(live / "file", created=False)

    disk.sync(file, lambda: _write(disk, file, 0, b"new"))
    disk.cut(len(disk.steps), left, Keep("nothing"))

    assert _files(left) == {"file": b"old"}


@pytest.mark.parametrize(("synchronous", "loses"), [("OFF", True), ("FULL", True), ("EXTRA", False)])
def test_the_model_agrees_with_what_sqlite_documents_of_its_rollback_journal(
    synchronous: str, loses: bool, tmp_path: Path
) -> None:
    """Only EXTRA syncs the folder after the journal's end, without which the last commit can be undone."""
    live = tmp_path / "live"
    live.mkdir()
    disk = Disk(live)
    with (
        vfs.tapped(disk, live),
        contextlib.closing(sqlite3.connect(live / "a.db", isolation_level=None)) as raw,
    ):
        raw.execute(f"PRAGMA synchronous = {synchronous}")
        raw.execute("CREATE TABLE t (n)")
        for number in range(5):
            raw.execute("INSERT INTO t VALUES (?)", (number,))
            disk.answered(str(number))

    lost = 0
    for at, step in enumerate(disk.steps, 1):
        if isinstance(step, Answered):
            left = tmp_path / str(at)
            left.mkdir()
            disk.cut(at, left, Keep("nothing"))
            lost += int(step.marker) not in _numbers(left / "a.db")

    assert (lost > 0) is loses


def _numbers(path: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(path)) as raw, contextlib.suppress(sqlite3.OperationalError):
        return [number for (number,) in raw.execute("SELECT n FROM t")]
    return []


def _write(disk: Disk, file: int, offset: int, data: bytes) -> None:
    disk.write(file, offset, data, lambda offset, data: None)


def _done() -> None: ...


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
