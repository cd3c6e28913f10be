"""
A directory as an object store, whose files survive a loss of power.

The driver links a file into its place without a sync, so it could be seen, built upon, and gone.
Here it is synced first, and its name after; only then does anybody hear of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from obstore.store import LocalStore

from holdfast.errors import NotAStore, StoreUnavailable
from holdfast.store.objects.bucket import PAGE, Bucket, Stat, no_bucket
from holdfast.store.objects.names import ROOTS, TEMPORARY

SMALL = 64 << 10
"""Up to this size a file is read at once: a hop to a thread takes longer."""


class LocalBucket(Bucket):
    """A directory. With ``sync`` False, what is written survives the process, not the machine."""

    def __init__(self, folder: Path, shown: str, *, sync: bool) -> None:
        if not folder.parent.is_dir():
            raise StoreUnavailable(f"{shown} can't be opened: the directory {folder.parent} does not exist")
        if folder.exists() and not folder.is_dir():
            raise NotAStore(f"{shown} names a file; name a directory")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        super().__init__(LocalStore(folder), shown)
        self._folder = folder
        self._sync = sync
        self._synced: set[Path] = set()

    async def get(self, path: str) -> bytes | None:
        return await self._reading(lambda: self._read(path, 0, None))

    async def get_range(self, path: str, start: int, end: int) -> bytes | None:
        return await self._reading(lambda: self._read(path, start, end))

    async def put(self, path: str, body: bytes) -> None:
        await self._writing(lambda: asyncio.to_thread(self._write, path, body, replace=True))

    async def pages(self, prefix: str, *, after: str | None = None) -> AsyncIterator[list[Stat]]:
        stats = [stat async for page in super().pages(prefix, after=after) for stat in page]
        stats.sort(key=lambda stat: stat.path)
        if not stats and not self._folder.is_dir():
            # Otherwise every conversation would seem to have been deleted.
            raise no_bucket(self._shown)
        for start in range(0, len(stats), PAGE):
            yield stats[start : start + PAGE]

    async def prune(self, folder: str) -> None:
        await asyncio.to_thread(self._prune, self._folder / folder)

    async def _create(self, path: str, body: bytes) -> bool:
        return await self._writing(lambda: asyncio.to_thread(self._write, path, body, replace=False))

    async def _read(self, path: str, start: int, end: int | None) -> bytes:
        file = self._folder / path
        size = os.stat(file).st_size if end is None else end - start
        if size <= SMALL:
            return _bytes(file, start, end)
        return await asyncio.to_thread(_bytes, file, start, end)

    def _write(self, path: str, body: bytes, *, replace: bool) -> bool:
        target = self._folder / path
        temporary = self._folder / TEMPORARY / secrets.token_hex(8)
        try:
            self._fill(temporary, body)
            while True:
                try:
                    if replace:
                        os.rename(temporary, target)
                    else:
                        os.link(temporary, target)
                    break
                except FileNotFoundError:
                    # Somebody may remove the empty folder between these two lines, and again.
                    self._synced.discard(target.parent)
                    self._make(target.parent)
                    if not temporary.exists():
                        # We were stopped for so long that it was swept.
                        self._fill(temporary, body)
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        if self._sync:
            try:
                self._sync_names(target.parent)
            except OSError as exc:
                # Others see it already, so it is not "nothing was stored", whatever the disk says.
                raise StoreUnavailable(f"{self._shown} can't sync what was written: {exc}") from exc
        return True

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it, but never the store itself: if that is gone, all is."""
        if not self._folder.is_dir():
            raise FileNotFoundError(self._folder)
        folder.mkdir(parents=True, exist_ok=True)

    def _fill(self, temporary: Path, body: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(temporary, flags, 0o666)
        except FileNotFoundError:
            self._make(temporary.parent)
            handle = os.open(temporary, flags, 0o666)
        try:
            view = memoryview(body)
            while view:
                view = view[os.write(handle, view) :]
            if self._sync:
                os.fsync(handle)
        finally:
            os.close(handle)

    def _sync_names(self, folder: Path) -> None:
        """Make the names in a folder durable, and once also those that lead to it."""
        _sync(folder)
        if folder in self._synced:
            return
        for parent in folder.parents:
            _sync(parent)
            if parent == self._folder.parent:
                break
        # Who made the conversation may have died before its root was synced, and we build on it.
        roots = folder.parents[1] / ROOTS
        if roots.is_dir():
            _sync(roots)
        self._synced.add(folder)

    def _prune(self, folder: Path) -> None:
        for path, _, _ in os.walk(folder, topdown=False):
            # It is not empty, or somebody else was quicker.
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _bytes(path: Path, start: int, end: int | None) -> bytes:
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(-1 if end is None else end - start)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
