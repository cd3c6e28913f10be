"""Opening a bucket: is it ours, and does it keep the one promise that everything stands on?"""

from __future__ import annotations

import asyncio
import secrets

import msgspec

from holdfast.errors import NotAStore, SchemaOutdated, SchemaTooNew, WeakerThanAsked
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.index import DUE, WAKE
from holdfast.store.objects.names import CONVERSATIONS, MARKER, OWNERS, PROBES, SWEPT, TEMPORARY

FORMAT = 1
TRUST = 10.0
"""Seconds for which a writer may trust what it saw. All processes must agree, so the store says it."""

_RACERS = 8
_OURS = (CONVERSATIONS, DUE, MARKER, OWNERS, PROBES, SWEPT, TEMPORARY, WAKE)


class Marker(msgspec.Struct, frozen=True):
    """What makes a folder a store."""

    format: int
    trust: float
    what: str = "a Holdfast store"


_proved: set[str] = set()
"""The services that this process has seen keep their promise. To try takes some of them seconds."""


async def open_bucket(bucket: Bucket, url: str, service: str) -> Marker:
    """
    Check a store, or make one of an empty folder.

    Raises:
        NotAStore: There is something else.
        SchemaOutdated, SchemaTooNew: It was written by another version.
        WeakerThanAsked: The service takes a second object of a name without a word.
    """
    body = await bucket.get(MARKER)
    if service not in _proved:
        await probe(bucket, url)
        _proved.add(service)
    if body is None:
        await _check_empty(bucket, url)
        await bucket.create(MARKER, msgspec.json.encode(Marker(FORMAT, TRUST)))
        body = await bucket.get(MARKER)
    return _read(body or b"", url)


async def probe(bucket: Bucket, url: str) -> None:
    """Find out whether of several writers of one name exactly one wins, and a later one loses."""
    path = f"{PROBES}/{secrets.token_hex(8)}"
    bodies = [b"%d" % number for number in range(_RACERS + 1)]
    try:
        won = await asyncio.gather(*(bucket.create(path, body) for body in bodies[:-1]))
        late = await bucket.create(path, bodies[-1])
        kept = await bucket.get(path)
    finally:
        await bucket.delete([path])
    winners = [body for body, first in zip(bodies, won, strict=False) if first]
    # A single one that says it lost can be a retry of its own request, whose first answer was lost.
    if late or len(winners) > 1 or (winners and kept != winners[0]) or kept is None:
        raise WeakerThanAsked(
            f"{url} does not keep conditional writes: of {_RACERS + 1} writers that create one object, "
            f"{len(winners) + late} were told that they had. Conversations would lose commits there; "
            "use a service that honours If-None-Match"
        )


async def _check_empty(bucket: Bucket, url: str) -> None:
    page, _ = await bucket.page("")
    for stat in page:
        if stat.path.partition("/")[0] not in _OURS:
            raise NotAStore(f"{url} holds other things, such as {stat.path!r}; choose an empty prefix")


def _read(body: bytes, url: str) -> Marker:
    try:
        marker = msgspec.json.decode(body, type=Marker)
    except msgspec.MsgspecError as exc:
        raise NotAStore(f"{url} has an object {MARKER!r} that is not ours; choose another prefix") from exc
    if marker.format > FORMAT:
        raise SchemaTooNew(url, found=marker.format, wanted=FORMAT)
    if marker.format < FORMAT:
        raise SchemaOutdated(url, found=marker.format, wanted=FORMAT)
    return marker
