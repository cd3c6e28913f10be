"""A directory whose requests a test can count, stop and answer, and whose objects it can make old."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.store.objects import ObjectsStore
from holdfast.store.objects.bucket import Bucket, Stat
from holdfast.store.objects.local import LocalBucket


class Stop:
    """A request that waits. ``reached`` is set when it has come, and ``go`` lets it go on."""

    def __init__(self, verb: str, pattern: str, *, after: bool) -> None:
        self.verb, self.pattern, self.after = verb, re.compile(pattern), after
        self.reached = asyncio.Event()
        self.go = asyncio.Event()


class Tap:
    """
    What happens to the requests of a store.

    A request is a verb and a name, such as ``create c/…/log/000000000002``; each page of a listing
    is one.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.stops: list[Stop] = []
        self.lost: Callable[[str, str], bool] = lambda verb, path: False

    def stop(self, verb: str, pattern: str, *, after: bool = False) -> Stop:
        """Stop the next such request before, or after, it is carried out."""
        stop = Stop(verb, pattern, after=after)
        self.stops.append(stop)
        return stop

    @contextlib.contextmanager
    def counted(self) -> Iterator[list[str]]:
        """The requests inside the block."""
        requests: list[str] = []
        before = len(self.requests)
        yield requests
        requests += self.requests[before:]

    async def passing(self, verb: str, path: str, *, after: bool) -> None:
        if not after:
            self.requests.append(f"{verb} {path}")
        for stop in self.stops:
            if (stop.verb, stop.after) == (verb, after) and stop.pattern.search(path):
                self.stops.remove(stop)
                stop.reached.set()
                await stop.go.wait()
                break
        if after and self.lost(verb, path):
            raise StoreUnavailable("the answer was lost")


class TappedBucket(LocalBucket):
    """A directory behind a tap."""

    tap: Tap

    async def get(self, path: str) -> bytes | None:
        await self.tap.passing("get", path, after=False)
        return await super().get(path)

    async def get_range(self, path: str, start: int, end: int) -> bytes | None:
        await self.tap.passing("get", path, after=False)
        return await super().get_range(path, start, end)

    async def put(self, path: str, body: bytes) -> None:
        await self.tap.passing("put", path, after=False)
        await super().put(path, body)
        await self.tap.passing("put", path, after=True)

    async def pages(self, prefix: str, *, after: str | None = None) -> AsyncIterator[list[Stat]]:
        await self.tap.passing("list", prefix, after=False)
        first = True
        async for page in super().pages(prefix, after=after):
            if not first:
                await self.tap.passing("list", prefix, after=False)
            first = False
            yield page

    async def folders(self, prefix: str) -> list[str]:
        await self.tap.passing("list", prefix, after=False)
        return await super().folders(prefix)

    async def _create(self, path: str, body: bytes) -> bool:
        await self.tap.passing("create", path, after=False)
        done = await super()._create(path, body)
        await self.tap.passing("create", path, after=True)
        return done


class TappedStore(ObjectsStore):
    """A store over a directory, with a tap."""

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        super().__init__(f"file://{folder}?poll=0.05&durability=os", clock=clock)
        self.folder = folder
        self.tap = Tap()

    def _bucket(self) -> Bucket:
        bucket = TappedBucket(self.folder, self.url, sync=False)
        bucket.tap = self.tap
        bucket._patience = 1.0
        return bucket

    async def upkeep(self) -> None:
        """Wait for what is done in the background."""
        await self._upkeep_done()


def names(folder: Path, pattern: str = "") -> list[str]:
    """The names of all objects in a directory that have this in them, without the two that every store has."""
    paths = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in paths if re.search(pattern, path) and path not in ("holdfast", "swept"))


def contents(folder: Path) -> bytes:
    """Every name and every byte in a directory."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return b"".join(str(path.relative_to(folder)).encode() + path.read_bytes() for path in files)


def make_older(folder: Path, seconds: float) -> None:
    """Let time pass for all objects that are there."""
    for path in folder.rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))
