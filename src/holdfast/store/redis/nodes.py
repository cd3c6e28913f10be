"""
The servers behind a store: one, or the primaries of a cluster.

A script runs where its shard lives. What a server certainly did not carry out (it is loading, the
slot moved, it does not know the script) is sent again until the time is up; what it may have carried
out is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from holdfast.errors import InvalidInput, StoreClosed
from holdfast.store.redis.faults import translate
from holdfast.store.redis.keys import Shard
from holdfast.store.redis.link import dial
from holdfast.store.redis.scripts import Script
from holdfast.store.redis.url import Address, RedisUrl
from holdfast.store.redis.wire import Command, Crowded, Unanswered, Unsent, Wire

PAUSE = 0.02
LONGEST_PAUSE = 0.5


class Nodes:
    """Knows which server has which slot, and has one wire to each."""

    def __init__(self, url: RedisUrl) -> None:
        self._url = url
        self._wires: dict[Address, Wire] = {}
        self._slots: dict[int, Address] = {}
        self._home = url.addresses[0]
        self._pending = 0
        self._quiet = asyncio.Event()
        self._closed = False
        self._looking = asyncio.Lock()
        self._looked_at = 0.0

    async def open(self) -> None:
        """
        Connect, and of a cluster find out who has what.

        Raises:
            StoreUnavailable: No server can be reached.
            InvalidInput: The URL says that it is a cluster, and it is none.
        """
        try:
            if self._url.cluster:
                await self._survey()
            else:
                await self._wire(self._home).connect()
        except (RedisError, Unsent, Unanswered) as exc:
            await self.close()
            if "cluster support disabled" in str(exc):
                raise InvalidInput(
                    f"{self._url.shown} is no cluster; leave cluster=true out of the URL"
                ) from exc
            raise translate(exc, self._url.shown) from exc

    async def close(self) -> None:
        """Wait for what is under way, then let go of the connections."""
        while self._pending:
            self._quiet.clear()
            await self._quiet.wait()
        self._closed = True
        for wire in self._wires.values():
            await wire.close()
        self._wires.clear()

    @property
    def addresses(self) -> list[Address]:
        """The servers that have the data."""
        return sorted(set(self._slots.values())) if self._url.cluster else [self._home]

    def address(self, shard: Shard) -> Address:
        """The server that has a shard."""
        return self._slots.get(shard.slot, self._home)

    async def run(self, shard: Shard, script: Script, keys: Sequence[bytes], *args: bytes) -> Any:
        """
        Run a script where the shard lives.

        Raises:
            StoreUnavailable: The server can't be reached, does not answer or refuses.
        """
        command = (b"EVALSHA", script.sha, b"%d" % len(keys), *keys, *args)
        return await self._ask(command, shard.slot, script)

    async def run_at(self, key: bytes, script: Script, *args: bytes) -> Any:
        """
        Run a script that needs one key, of no shard.

        Raises:
            StoreUnavailable: The server can't be reached, does not answer or refuses.
        """
        return await self._ask((b"EVALSHA", script.sha, b"1", key, *args), key_slot(key), script)

    async def call(self, shard: Shard, *command: bytes) -> Any:
        """
        Send a command that only reads to the server that has a shard.

        Raises:
            StoreUnavailable: The server can't be reached, does not answer or refuses.
        """
        return await self._ask(command, shard.slot, None)

    async def call_at(self, address: Address, *command: bytes) -> Any:
        """
        Send a command to one of the servers.

        Raises:
            StoreUnavailable: It can't be reached, does not answer or refuses.
        """
        try:
            return await self._wire(address).call(command)
        except (RedisError, Unsent, Unanswered) as exc:
            raise translate(exc, self._url.shown) from exc

    async def _ask(self, command: Command, slot: int, script: Script | None) -> Any:
        if self._closed:
            raise StoreClosed(self._url.shown)
        self._pending += 1
        started = time.monotonic()
        try:
            return await self._wire(self._slots.get(slot, self._home)).call(
                command, writes=script is not None and script.writes
            )
        except (RedisError, Unsent, Unanswered) as exc:
            return await self._ask_again(command, slot, script, exc, started + self._url.timeout)
        finally:
            self._pending -= 1
            if not self._pending:
                self._quiet.set()

    async def _ask_again(
        self,
        command: Command,
        slot: int,
        script: Script | None,
        why: RedisError | Unsent | Unanswered,
        deadline: float,
    ) -> Any:
        writes = script is not None and script.writes
        pause = PAUSE
        while True:
            before: tuple[Command, ...] = ()
            address = None
            match why:
                case NoScriptError() if script is not None:
                    before = ((b"SCRIPT", b"LOAD", script.text),)
                case MovedError() if self._url.cluster:
                    self._slots[slot] = (why.host, why.port)
                case AskError() if self._url.cluster:
                    address = (why.host, why.port)
                    load = () if script is None else ((b"SCRIPT", b"LOAD", script.text),)
                    before = (*load, (b"ASKING",))
                case Crowded():
                    raise translate(why, self._url.shown) from why
                case BusyLoadingError() | TryAgainError():
                    await asyncio.sleep(PAUSE)
                case ResponseError() if not writes and "non local key" in str(why):
                    # The slot is on its way to another node, and a list found a key that is there already.
                    await asyncio.sleep(PAUSE)
                case ClusterDownError() | Unsent():
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    await self.look_around()
                case _:
                    if isinstance(why, ReadOnlyError):
                        await self._drop(self._slots.get(slot, self._home))
                    raise translate(why, self._url.shown) from why
            if time.monotonic() > deadline:
                raise translate(why, self._url.shown) from why
            try:
                wire = self._wire(address or self._slots.get(slot, self._home))
                return await wire.call(*before, command, writes=writes)
            except (RedisError, Unsent, Unanswered) as exc:
                why = exc

    def _wire(self, address: Address) -> Wire:
        wire = self._wires.get(address)
        if wire is None:
            wire = self._wires[address] = Wire(
                partial(dial, self._url, address), timeout=self._url.timeout, replicas=self._url.replicas
            )
        return wire

    async def _drop(self, address: Address) -> None:
        """Connect anew next time: behind a name there may be another server by now."""
        if wire := self._wires.pop(address, None):
            await wire.close()

    async def look_around(self) -> None:
        """Find out anew who has what, if that can be found out now; once for all who ask at the same time."""
        if not self._url.cluster:
            return
        asked_at = time.monotonic()
        async with self._looking:
            if self._looked_at < asked_at:
                with contextlib.suppress(RedisError, Unsent, Unanswered):
                    await self._survey()
                self._looked_at = time.monotonic()

    async def _survey(self) -> None:
        """Ask one node after the other who has which slots."""
        known = [*dict.fromkeys((*self._url.addresses, *self._slots.values()))]
        for address in known:
            try:
                slots = await self._wire(address).call((b"CLUSTER", b"SLOTS"))
            except (Unsent, Unanswered):
                if address == known[-1]:
                    raise
                continue
            self._home = address
            self._slots = {
                slot: (node[0].decode() or address[0], node[1])
                for first, last, node, *_ in slots
                for slot in range(first, last + 1)
            }
            return
