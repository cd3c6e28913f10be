"""Removing the bytes of what was deleted from a server's files: it writes them anew."""

from __future__ import annotations

import asyncio

from redis.exceptions import ResponseError

from holdfast.errors import StoreUnavailable
from holdfast.store.redis.nodes import Nodes
from holdfast.store.redis.url import Address

_PAUSE = 0.01
_RUNNING = (
    b"aof_rewrite_in_progress",
    b"aof_rewrite_scheduled",
    b"rdb_bgsave_in_progress",
)


async def scrub(nodes: Nodes) -> None:
    """
    Have every server write its files anew, and wait until the old ones are gone.

    Raises:
        StoreUnavailable: A server could not.
    """
    for address in nodes.addresses:
        state = await _state(nodes, address)
        if state[b"aof_enabled"] == b"1":
            await _rewrite(nodes, address, b"BGREWRITEAOF", b"aof_last_bgrewrite_status")
        if state.get(b"rdb_saves") != b"0" or state.get(b"rdb_last_load_keys_loaded") != b"0":
            await _rewrite(nodes, address, b"BGSAVE", b"rdb_last_bgsave_status")


async def _rewrite(nodes: Nodes, address: Address, command: bytes, status: bytes) -> None:
    while True:
        # One that runs already may have begun before something was deleted.
        await _wait(nodes, address)
        try:
            await nodes.call_at(address, command)
        except StoreUnavailable as exc:
            if isinstance(exc.__cause__, ResponseError) and "in progress" in str(exc):
                continue
            raise
        break
    state = await _wait(nodes, address)
    if state[status] != b"ok":
        raise StoreUnavailable(f"the server could not write its files anew ({command.decode()}); see its log")


async def _wait(nodes: Nodes, address: Address) -> dict[bytes, bytes]:
    while True:
        state = await _state(nodes, address)
        if all(state.get(name) == b"0" for name in _RUNNING):
            return state
        await asyncio.sleep(_PAUSE)


async def _state(nodes: Nodes, address: Address) -> dict[bytes, bytes]:
    text = await nodes.call_at(address, b"INFO", b"persistence")
    return dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)
