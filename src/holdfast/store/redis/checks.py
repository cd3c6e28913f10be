"""What is checked before a store is used: how the server keeps what it is given, and how the store is laid out."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec
from redis.exceptions import ResponseError

from holdfast.errors import InvalidInput, SchemaTooNew, StoreUnavailable, WeakerThanAsked
from holdfast.store.backend import Durability
from holdfast.store.redis import scripts
from holdfast.store.redis.keys import meta_key
from holdfast.store.redis.nodes import Nodes
from holdfast.store.redis.url import DEFAULT_SHARDS, Address, RedisUrl

FORMAT = 1
OLDEST = 7

_ORDER: Sequence[Durability] = ("memory", "os", "disk", "replicated")
_SETTINGS = (b"appendonly", b"appendfsync", b"no-appendfsync-on-rewrite", b"maxmemory-policy")


class Settings(msgspec.Struct, frozen=True):
    """What a server says about itself."""

    append_only: bool
    sync_always: bool
    sync_while_rewriting: bool
    eviction: str

    @property
    def durability(self) -> Durability:
        """What a commit survives on this server alone."""
        if not self.append_only:
            return "memory"
        return "disk" if self.sync_always and self.sync_while_rewriting else "os"

    def lacks(self, durability: Durability) -> str:
        """The settings that it would need for more."""
        wanted = [] if self.append_only else ["appendonly yes"]
        if durability == "disk":
            wanted += [] if self.sync_always else ["appendfsync always"]
            wanted += [] if self.sync_while_rewriting else ["no-appendfsync-on-rewrite no"]
        return " ".join(wanted)


async def promises(nodes: Nodes, url: RedisUrl) -> tuple[Durability, bool]:
    """
    The durability that the store has, and whether it can remove every byte of what was deleted.

    Raises:
        StoreUnavailable: A server is too old.
        WeakerThanAsked: One may lose what it acknowledged, and the URL does not say that it may.
    """
    infos = [await _info(nodes, address) for address in nodes.addresses]
    for info in infos:
        version = info.get("redis_version", str(OLDEST))
        if int(version.partition(".")[0]) < OLDEST:
            raise StoreUnavailable(
                f"{url.shown} is Redis {version}; the store needs Redis {OLDEST}, or Valkey"
            )
    servers = [await _settings(nodes, address) for address in nodes.addresses]
    durability = _checked(url, servers)
    replicas = [int(info["connected_slaves"]) if info else None for info in infos]
    least = min((count for count in replicas if count is not None), default=url.replicas)
    if least < url.replicas:
        raise WeakerThanAsked(f"{url.shown} has {least} replicas, and the URL asks for {url.replicas}")
    # What a replica keeps on its disk is out of reach.
    return durability, None not in servers and all(count == 0 for count in replicas)


async def _info(nodes: Nodes, address: Address) -> dict[str, str]:
    """What a server says about itself; nothing if it does not let us ask."""
    text = await _if_allowed(nodes.call_at(address, b"INFO"))
    lines = (text or b"").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


async def _settings(nodes: Nodes, address: Address) -> Settings | None:
    """The settings of a server; None if it does not let us read them."""
    answer = await _if_allowed(nodes.call_at(address, b"CONFIG", b"GET", *_SETTINGS))
    if answer is None:
        return None
    found = dict(zip(answer[::2], answer[1::2], strict=True))
    return Settings(
        append_only=found.get(b"appendonly") == b"yes",
        sync_always=found.get(b"appendfsync") == b"always",
        sync_while_rewriting=found.get(b"no-appendfsync-on-rewrite") == b"no",
        eviction=found.get(b"maxmemory-policy", b"").decode(),
    )


async def _if_allowed(question: Awaitable[Any]) -> Any:
    try:
        return await question
    except StoreUnavailable as exc:
        if isinstance(exc.__cause__, ResponseError):
            return None
        raise


def _checked(url: RedisUrl, servers: Sequence[Settings | None]) -> Durability:
    asked: Durability = url.durability or "disk"
    for server in servers:
        if server is None:
            if url.durability is None:
                raise WeakerThanAsked(
                    f"{url.shown} does not let us read its settings (CONFIG GET), so nobody knows whether it may "
                    "lose what it acknowledged: look them up, then say in the URL what they are worth: "
                    "durability=disk if appendonly is yes and appendfsync is always, os if appendonly is yes, "
                    "otherwise memory"
                )
            continue
        _check_server(url.shown, asked, server)
    return asked


def _check_server(shown: str, asked: Durability, server: Settings) -> None:
    alone: Durability = "disk" if asked == "replicated" else asked
    if _ORDER.index(server.durability) < _ORDER.index(alone):
        raise WeakerThanAsked(
            f"{shown} may lose commits that it acknowledged ({_loses(server)}): CONFIG SET {server.lacks(alone)}, "
            f"also in its configuration file, or write durability={server.durability} in the URL"
        )
    # Keys are evicted one by one: a conversation would lose its log and keep its header. Of the policies
    # that evict, those for keys with an expiry leave ours alone.
    if server.eviction.startswith("allkeys") or (alone == "disk" and server.eviction != "noeviction"):
        raise WeakerThanAsked(
            f"{shown} evicts keys when its memory is full (maxmemory-policy {server.eviction}), so parts of "
            "conversations would vanish: CONFIG SET maxmemory-policy noeviction"
        )


def _loses(server: Settings) -> str:
    if not server.append_only:
        return "appendonly is no: all is gone when the server ends"
    return "it does not sync each write: some seconds are gone when the machine fails"


async def layout(nodes: Nodes, url: RedisUrl, *, create: bool) -> int:
    """
    The number of shards of a store; whoever opens it first chooses, if ``create`` allows it.

    Raises:
        SchemaTooNew: It was written by a newer version.
        InvalidInput: The URL asks for another number.
    """
    asked = url.shards or DEFAULT_SHARDS
    first = (b"%d" % FORMAT, b"%d" % asked) if create else ()
    answer = await nodes.run_at(meta_key(url.prefix), scripts.META, *first)
    form, shards = (int(found or default) for found, default in zip(answer, (FORMAT, asked), strict=True))
    if form > FORMAT:
        raise SchemaTooNew(url.shown, found=form, wanted=FORMAT)
    if url.shards not in (None, shards):
        raise InvalidInput(
            f"{url.shown} was made with {shards} shards, which can't be changed; leave shards out of the URL"
        )
    return shards
