"""Places inside the objects store where the crash harness makes a process die."""

from __future__ import annotations

from collections.abc import Callable

BEFORE_ENTRY, AFTER_ENTRY = "before an entry", "after an entry"
BEFORE_CHECKPOINT, AFTER_CHECKPOINT = "before a checkpoint", "after a checkpoint"

NAMES = (BEFORE_ENTRY, AFTER_ENTRY, BEFORE_CHECKPOINT, AFTER_CHECKPOINT)
_POINTS = {"log": (BEFORE_ENTRY, AFTER_ENTRY), "ckpt": (BEFORE_CHECKPOINT, AFTER_CHECKPOINT)}


def install(reach: Callable[[str], None], url: str) -> None:
    """
    Report when a store comes by.

    Its processes live for a moment, and should merge all the same. Whether the server keeps conditions,
    which takes it seconds to show, is left to others.
    """
    from holdfast.store.objects import opening
    from holdfast.store.objects.address import Address
    from holdfast.store.objects.bucket import Bucket
    from holdfast.store.objects.merging import Merger

    create = Bucket.create
    Merger.entries = 4
    opening._proved.add(Address.parse(url).service)

    async def tapped(self: Bucket, path: str, body: bytes) -> bool:
        before, after = _POINTS.get(path.rpartition("/")[0].rpartition("/")[2], ("", ""))
        reach(before)
        done = await create(self, path, body)
        reach(after)
        return done

    Bucket.create = tapped  # type: ignore[method-assign]
