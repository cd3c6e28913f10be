"""
Stores: where conversations live.

>>> import asyncio
>>> from holdfast.store import Append, ConversationKey, SetHeader, connect
>>> async def main() -> None:
...     async with connect("memory://") as store:
...         key = ConversationKey("user-1", "trip-42")
...         await store.commit(key, [Append("notice", b'{"text": "hello"}')], create=SetHeader())
...         print([event.data for event in await store.events(key)])
>>> asyncio.run(main())
[b'{"text": "hello"}']
"""

from __future__ import annotations

from importlib import import_module
from urllib.parse import urlsplit

from holdfast.clock import Clock
from holdfast.errors import MissingExtra, UnknownStore
from holdfast.ids import ConversationKey
from holdfast.store.backend import Limits
from holdfast.store.contract import Store
from holdfast.store.ops import (
    ABSENT,
    Append,
    DropRecords,
    MoveCall,
    Op,
    OpenCall,
    PutRecord,
    Redact,
    Rest,
    SetHeader,
    Tag,
    Untag,
    Wake,
)
from holdfast.store.url import hide_password

__all__ = [
    "ABSENT",
    "Append",
    "ConversationKey",
    "DropRecords",
    "Limits",
    "MoveCall",
    "Op",
    "OpenCall",
    "PutRecord",
    "Redact",
    "Rest",
    "SetHeader",
    "Store",
    "Tag",
    "Untag",
    "Wake",
    "connect",
]

ENTRY_POINTS = "holdfast.stores"

_BUILT_IN = {
    "memory": ("holdfast.store.memory:MemoryStore", None),
    "sqlite": ("holdfast.store.sqlite:SQLiteStore", None),
    "postgresql": ("holdfast.store.postgres:PostgresStore", "postgres"),
    "postgres": ("holdfast.store.postgres:PostgresStore", "postgres"),
    "mysql": ("holdfast.store.mysql:MySQLStore", "mysql"),
    "mariadb": ("holdfast.store.mysql:MySQLStore", "mysql"),
    "redis": ("holdfast.store.redis:RedisStore", "redis"),
    "rediss": ("holdfast.store.redis:RedisStore", "redis"),
    "valkey": ("holdfast.store.redis:RedisStore", "redis"),
    "valkeys": ("holdfast.store.redis:RedisStore", "redis"),
    "s3": ("holdfast.store.objects:ObjectsStore", "objects"),
    "gs": ("holdfast.store.objects:ObjectsStore", "objects"),
    "az": ("holdfast.store.objects:ObjectsStore", "objects"),
    "file": ("holdfast.store.objects:ObjectsStore", "objects"),
}


def connect(url: str, *, clock: Clock | None = None) -> Store:
    """
    The store behind a URL, not open yet: use it with ``async with``.

    ``memory://`` and ``sqlite:///path.db`` are built in. Other packages add schemes with an entry
    point of the group ``holdfast.stores``: its name is the scheme, its value a ``Store`` class that
    takes ``(url, *, clock)``. ``clock`` is for tests; without it the store's own clock counts.

    Raises:
        UnknownStore: No installed store has this scheme.
        MissingExtra: The store needs a package that is not installed.
        InvalidInput: The URL is not one that the store understands.
    """
    scheme = urlsplit(url).scheme if isinstance(url, str) else ""
    if scheme in _BUILT_IN:
        path, extra = _BUILT_IN[scheme]
        module, _, name = path.partition(":")
        try:
            factory = getattr(import_module(module), name)
        except ImportError as exc:
            if extra is None:
                raise
            raise MissingExtra(f"{scheme}://", extra) from exc
    else:
        # Half of the time that importing this package would take, and most programs never get here.
        from importlib.metadata import entry_points

        found = [point for point in entry_points(group=ENTRY_POINTS) if point.name == scheme]
        if not found:
            known = sorted({*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINTS))})
            raise UnknownStore(
                f"no store is installed for {hide_password(str(url))!r}; known are "
                + ", ".join(f"{name}://" for name in known)
            )
        factory = found[0].load()
    store: Store = factory(url, clock=clock)
    return store
