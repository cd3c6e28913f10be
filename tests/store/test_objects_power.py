"""A directory whose power fails: what was acknowledged is still there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreFull, StoreUnavailable
from holdfast.store import ConversationKey, SetHeader, connect
from holdfast.testing.build import noted, put, said

KEY = ConversationKey("ada", "c-1")

pytestmark = pytest.mark.anyio


class Disk:
    """
    What a disk would have after a loss of power: bytes and names that were synced, and nothing else.

    A file's bytes are there once it was synced, a name once its folder was.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._bytes: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        sync = os.fsync

        def fsync(handle: int) -> None:
            sync(handle)
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if path.is_dir():
                self._names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
            else:
                self._bytes[os.fstat(handle).st_ino] = path.read_bytes()

        monkeypatch.setattr(os, "fsync", fsync)

    def after_power_loss(self, target: Path) -> Path:
        """The directory as it comes back."""
        shutil.rmtree(target, ignore_errors=True)
        self._restore(self._folder, target)
        return target

    def _restore(self, folder: Path, target: Path) -> None:
        target.mkdir()
        for name, inode in self._names.get(folder, {}).items():
            if (folder / name).is_dir():
                self._restore(folder / name, target / name)
            else:
                (target / name).write_bytes(self._bytes.get(inode, b""))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path / "store", monkeypatch)


async def lost_after(url: str, disk: Disk, copy: Path) -> list[int]:
    """The numbers of the commits that were acknowledged, and gone when the power failed right after."""
    lost: list[int] = []
    async with connect(url) as store:
        for number in range(40):
            ops: list[Any] = [noted(number), said(f"hello {number}"), put(f"{number}")]
            await store.commit(KEY, ops, create=SetHeader())
            if number % 5 and number != 39:
                continue
            async with connect(f"file://{disk.after_power_loss(copy)}?durability=os") as after:
                events = await after.events(KEY) if await after.headers("ada") else []
                records = await after.records(KEY, "notes") if events else []
                if len(events) < 2 * number + 2 or len(records) < number + 1:
                    lost.append(number)
    return lost


async def test_what_was_acknowledged_survives_loss_of_power(tmp_path: Path, disk: Disk) -> None:
    assert await lost_after(f"file://{tmp_path}/store", disk, tmp_path / "copy") == []


async def test_what_is_built_on_a_root_that_its_author_did_not_sync_survives(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The author died right after the root could be seen."""
    url = f"file://{tmp_path}/store"
    sync = os.fsync

    def die(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("/current"):
            raise OSError(5, "died here")
        sync(handle)

    async with connect(url) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", die)
            with pytest.raises(StoreUnavailable, match="died here"):
                await store.commit(KEY, [noted(0)], create=SetHeader())

    async with connect(url) as other:
        assert (await other.commit(KEY, [noted(1)])).seqs == (2,)
    async with connect(f"file://{disk.after_power_loss(tmp_path / 'copy')}") as after:
        assert [event.data for event in await after.events(KEY)] == [b"0", b"1"]


async def test_a_full_disk_at_the_last_sync_does_not_count_as_nothing_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(f"file://{tmp_path}/store") as store:
        await store.commit(KEY, [noted(0)], create=SetHeader())
        sync = os.fsync

        def full(handle: int) -> None:
            if os.readlink(f"/proc/self/fd/{handle}").endswith("/log"):
                raise OSError(28, "No space left on device")
            sync(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StoreUnavailable) as caught:
                await store.commit(KEY, [noted(1)], token="t-1")

        assert not isinstance(caught.value, StoreFull)
        assert (await store.commit(KEY, [noted(1)], token="t-1")).seqs == (2,)
        assert len(await store.events(KEY)) == 2


async def test_without_syncs_it_would_not(tmp_path: Path, disk: Disk) -> None:
    """Otherwise the test above would prove nothing."""
    lost = await lost_after(f"file://{tmp_path}/store?durability=os", disk, tmp_path / "copy")

    assert len(lost) == 9
