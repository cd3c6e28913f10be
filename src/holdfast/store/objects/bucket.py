"""
Objects by name: the few requests that the store is made of, and the driver's errors in our words.

The only condition that is ever asked for is "create, if nothing is there": every S3 has it, and so
has a directory.
"""

from __future__ import annotations

import asyncio
import errno
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from holdfast.clock import SECOND
from holdfast.errors import NotAStore, StoreError, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")

AT_ONCE = 64
PAGE = 1000
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0
_SHOWN = 300
_QUERY = re.compile(r"\?\S*")
_ANSWER = re.compile(r":?\s*(<\?xml.*|<Error>.*)", re.DOTALL)
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")


class _Missing(StoreUnavailable):
    """There is no such object."""


class _Refused(StoreUnavailable):
    """We may not do that, however often we ask."""


class Stat(msgspec.Struct, frozen=True):
    """An object in a listing. ``modified`` is by the clock of whoever stores it, in microseconds."""

    path: str
    size: int
    modified: int


class Bucket:
    """
    A folder of an object store. ``shown`` is its URL, fit for messages; ``patience`` is for how many
    seconds a write is repeated whose answer was lost.

    Raises:
        StoreUnavailable: From every method. Whether a write was applied is not known then.
        NotAStore: From every method. There is no such bucket or directory, or it is gone.
    """

    def __init__(self, store: ObjectStore, shown: str, *, patience: float = 0.0) -> None:
        self._store = store
        self._shown = shown
        self._patience = patience
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def get(self, path: str) -> bytes | None:
        """An object's bytes, or None."""

        async def get() -> bytes:
            found = await obstore.get_async(self._store, path)
            return bytes(await found.bytes_async())

        return await self._reading(get)

    async def get_range(self, path: str, start: int, end: int) -> bytes | None:
        """Some of an object's bytes, or None if it is not there."""

        async def get() -> bytes:
            return bytes(await obstore.get_range_async(self._store, path, start=start, end=end))

        return await self._reading(get)

    async def create(self, path: str, body: bytes) -> bool:
        """
        Write an object that is not there yet; False if there is one.

        It may be the one of this very call: an answer that was lost is asked for again. So put
        something into the body that nobody else writes, and look.
        """
        until = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._create(path, body)
            except (StoreFull, _Refused):
                raise
            except StoreUnavailable:
                if time.monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def put(self, path: str, body: bytes) -> None:
        """Write an object, whatever is there."""
        await self._writing(lambda: obstore.put_async(self._store, path, body, use_multipart=False))

    async def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; those that are not there count as removed."""
        paths = list(paths)
        for start in range(0, len(paths), PAGE):
            some = paths[start : start + PAGE]
            try:
                await self._asking(lambda some=some: obstore.delete_async(self._store, some))  # type: ignore[misc]
            except _Missing:
                # Some services give up at the first that is missing.
                await asyncio.gather(*map(self._delete_one, some))

    async def pages(self, prefix: str, *, after: str | None = None) -> AsyncIterator[list[Stat]]:
        """Objects below a prefix in order of their names, a request at a time."""
        stream = obstore.list(self._store, prefix or None, offset=after, chunk_size=PAGE)
        while True:
            chunk = await self._asking(lambda: anext(stream, None))
            if chunk is None:
                return
            yield [Stat(meta["path"], meta["size"], _micros(meta["last_modified"])) for meta in chunk]
            if len(chunk) < PAGE:
                return

    async def listed(self, prefix: str, *, after: str | None = None) -> list[Stat]:
        """Every object below a prefix, in order of their names."""
        return [stat async for page in self.pages(prefix, after=after) for stat in page]

    async def page(self, prefix: str) -> tuple[list[Stat], bool]:
        """The first objects below a prefix, and whether these are all."""
        async for page in self.pages(prefix):
            return page, len(page) < PAGE
        return [], True

    async def folders(self, prefix: str) -> list[str]:
        """The folders right below a prefix, in order."""
        found = await self._asking(lambda: obstore.list_with_delimiter_async(self._store, prefix))
        return sorted(found["common_prefixes"])

    async def modified(self, path: str) -> int | None:
        """When an object was written, by the clock of whoever stores it; None if it is not there."""
        try:
            meta = await self._asking(lambda: obstore.head_async(self._store, path))
        except _Missing:
            return None
        return _micros(meta["last_modified"])

    async def prune(self, folder: str) -> None:
        """Forget a folder that has nothing in it, where folders are things of their own."""

    async def _create(self, path: str, body: bytes) -> bool:
        try:
            await self._writing(
                lambda: obstore.put_async(self._store, path, body, mode="create", use_multipart=False)
            )
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    async def _delete_one(self, path: str) -> None:
        try:
            await self._asking(lambda: obstore.delete_async(self._store, path))
        except _Missing:
            return

    async def _reading(self, request: Callable[[], Awaitable[bytes]]) -> bytes | None:
        try:
            return await self._asking(request)
        except _Missing:
            return None

    async def _writing(self, request: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._asking(request)
        except _Missing as exc:
            # Whatever the service says: an object that is written needs nothing but its bucket.
            raise no_bucket(self._shown) from exc.__cause__

    async def _asking(self, request: Callable[[], Awaitable[T]]) -> T:
        async with self._gate:
            try:
                return await request()
            except (AlreadyExistsError, PreconditionError):
                raise
            except FileNotFoundError as exc:
                if _code(exc) in _NO_BUCKET:
                    raise no_bucket(self._shown) from exc
                raise _Missing(f"{self._shown}: an object is missing") from exc
            except (BaseError, OSError, ValueError) as exc:
                raise translate(exc, self._shown) from exc


def translate(error: Exception, shown: str) -> StoreError:
    """What a driver's error means for the caller."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(f"{shown}: no space is left; nothing of this commit was stored. Free some and retry")
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError, PermissionError)):
        return _Refused(f"{shown} refuses us; check the credentials in the environment, and rights")
    code = _code(error)
    if code in _NO_BUCKET:
        return no_bucket(shown)
    # The driver adds what it looks like in its memory after an empty line.
    what = _ANSWER.sub(f" {code}" if code else "", str(error).partition("\n\n")[0])
    return StoreUnavailable(f"{shown} can't be used right now: {_QUERY.sub('', what)[:_SHOWN]}")


def no_bucket(shown: str) -> NotAStore:
    """What is said where the place itself is missing."""
    return NotAStore(
        f"{shown}: there is no such bucket, container or directory. Create it, or correct the URL; "
        "retrying does not help"
    )


def _code(error: Exception) -> str | None:
    """The code in a service's answer, if it gave one."""
    found = _CODE.search(str(error))
    return found and found[1]


def _micros(time: datetime) -> int:
    return round(time.timestamp() * SECOND)
