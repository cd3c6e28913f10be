"""The driver's errors in our words. They leave the package nowhere else."""

from __future__ import annotations

from redis.exceptions import (
    AskError,
    AuthenticationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)

from holdfast.errors import NotAStore, StoreError, StoreFull, StoreUnavailable
from holdfast.store.redis.wire import Unanswered, Unsent

Fault = RedisError | Unsent | Unanswered


def translate(error: Fault, url: str) -> StoreError:
    """What an error means for the caller. ``url`` has no password in it."""
    text = str(error)
    match error:
        case Unsent():
            return StoreUnavailable(f"{url} can't be reached: {text}")
        case Unanswered():
            return StoreUnavailable(
                f"{url} did not answer: {text}; a commit may have been applied, repeat it with its token"
            )
        case OutOfMemoryError():
            return StoreFull(
                f"{url} has no memory left; nothing of this commit was stored. Raise its maxmemory"
            )
        case AuthenticationError():
            return StoreUnavailable(f"{url} does not let us in: {text}")
        case NoPermissionError():
            return StoreUnavailable(f"{url} does not allow what the store needs: {text}")
        case ReadOnlyError():
            return StoreUnavailable(f"{url} is a replica and takes no writes; connect to its primary")
        case AskError():
            return StoreUnavailable(f"{url} is a node of a cluster; add cluster=true to the URL")
    if text.startswith("WRONGTYPE"):
        return NotAStore(f"{url} has keys of another application under this name; choose another ?prefix=")
    if "No space left" in text:
        return StoreFull(f"{url} can't write to its disk: {text}")
    return StoreUnavailable(f"{url}: {text}")
