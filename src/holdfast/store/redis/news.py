"""
Watching: hints come by publish and subscribe.

A subscription that broke is made anew, and then whatever it was about gets a hint. What is lost all
the same is found by a look at the watched conversations every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection

from redis.exceptions import MovedError, RedisError, ResponseError

from holdfast.errors import StoreError
from holdfast.ids import ConversationKey
from holdfast.model.records import Notice
from holdfast.store.redis.keys import Keys, Place, Shard, key_of
from holdfast.store.redis.link import Link, dial
from holdfast.store.redis.nodes import Nodes
from holdfast.store.redis.url import Address, RedisUrl
from holdfast.store.redis.wire import packed
from holdfast.store.watchers import Watchers

POLL_SECONDS = 2.0
_PAUSE = 0.05
_SIGNAL = b"!"
_MARKS = (b"base", b"rev", b"wake", b"holder", b"fence")


class _Channel:
    """A channel that somebody needs. ``ready`` is set while the server sends what is published to it."""

    def __init__(self, of: Place | Shard) -> None:
        self.name = of.channel
        self.shard = of if isinstance(of, Shard) else of.shard
        self.key = None if isinstance(of, Shard) else key_of(of.name)
        self.users = 0
        self.ready = asyncio.Event()
        self.interrupted = False


class News:
    """The watches of one store, and the connections that feed them: one to each server that is needed."""

    def __init__(self, url: RedisUrl, nodes: Nodes, keys: Keys) -> None:
        self._url, self._nodes, self._keys = url, nodes, keys
        self._watchers = Watchers()
        self._channels: dict[bytes, _Channel] = {}
        self._ears: dict[Address, _Ear] = {}
        self._seen: dict[ConversationKey, list[bytes | None]] = {}
        self._broken = False
        self._stirred = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watch(self, keys: frozenset[ConversationKey] | None) -> AsyncIterator[AsyncIterator[Notice]]:
        """Open a watch: what happens from here on is noticed."""
        places: list[Place | Shard] = [*self._keys.shards] if keys is None else [*map(self._keys.place, keys)]
        async with self._watchers.watch(keys) as notices:
            needed = [self._channels.setdefault(place.channel, _Channel(place)) for place in places]
            for channel in needed:
                channel.users += 1
            try:
                for key, marks in (await self._look_at(keys or ())).items():
                    self._seen.setdefault(key, marks)
                self._stir()
                # A server that does not let us subscribe is looked at every few seconds instead.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        for channel in needed:
                            await channel.ready.wait()
                yield notices
            finally:
                for channel in needed:
                    channel.users -= 1
                    if not channel.users:
                        del self._channels[channel.name]
                self._stir()

    async def signal(self, key: ConversationKey, payload: bytes) -> None:
        """Publish a signal to who watches the conversation, and to who watches all of them."""
        place = self._keys.place(key)
        command = b"SPUBLISH" if self._url.cluster else b"PUBLISH"
        await asyncio.gather(
            self._nodes.call(place.shard, command, place.channel, _SIGNAL + payload),
            self._nodes.call(
                place.shard, command, place.shard.channel, _SIGNAL + place.name + b"\0" + payload
            ),
        )

    async def close(self) -> None:
        """End every watch."""
        self._watchers.close()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._close_ears()

    def _stir(self) -> None:
        self._stirred.set()
        if self._channels and (self._keeper is None or self._keeper.done()):
            self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """Keep the subscriptions as they are needed, and poll, for as long as somebody watches."""
        loop = asyncio.get_running_loop()
        poll_at = loop.time() + POLL_SECONDS
        while True:
            if not self._channels:
                await self._close_ears()
                # Somebody may have begun to watch meanwhile.
                if not self._channels:
                    return
            self._stirred.clear()
            if self._broken:
                # The server went away, or gave its channels to another.
                self._broken = False
                await asyncio.sleep(_PAUSE)
                await self._nodes.look_around()
            await self._tune()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(poll_at):
                    await self._stirred.wait()
            if loop.time() >= poll_at:
                # A server that is away is looked at again in the next round.
                with contextlib.suppress(StoreError):
                    await self._poll()
                poll_at = loop.time() + POLL_SECONDS

    async def _tune(self) -> None:
        wanted: dict[Address, list[_Channel]] = {}
        for channel in self._channels.values():
            wanted.setdefault(self._nodes.address(channel.shard), []).append(channel)
        await self._close_ears(wanted.keys())
        for address, channels in wanted.items():
            if (ear := self._ears.get(address)) is None or ear.closed:
                ear = self._ears[address] = _Ear(self, self._url, address)
            try:
                await ear.tune({channel.name for channel in channels})
            except (RedisError, OSError, TimeoutError):
                await ear.close()
                self.lost(set())

    async def _close_ears(self, keep: Collection[Address] = ()) -> None:
        for address in self._ears.keys() - keep:
            await self._ears.pop(address).close()

    async def _poll(self) -> None:
        seen = await self._look_at(self._watchers.keys)
        changed = [key for key, marks in seen.items() if marks != self._seen.get(key, marks)]
        self._seen = seen
        self._watchers.changed([*changed, None] if self._watchers.any else changed)

    async def _look_at(self, keys: Collection[ConversationKey]) -> dict[ConversationKey, list[bytes | None]]:
        """What changes whenever something about a conversation does that a watcher is told of."""
        places = [*map(self._keys.place, keys)]
        marks = await asyncio.gather(
            *(self._nodes.call(place.shard, b"HMGET", place.head, *_MARKS) for place in places)
        )
        return dict(zip(keys, marks, strict=True))

    # What the ears hear

    def subscribed(self, name: bytes) -> None:
        """The server sends what is published to a channel from now on."""
        if channel := self._channels.get(name):
            channel.ready.set()
            if channel.interrupted:
                channel.interrupted = False
                self._watchers.changed([channel.key])

    def lost(self, names: set[bytes]) -> None:
        """The server stopped to send what is published to some channels."""
        for name in names:
            if channel := self._channels.get(name):
                channel.interrupted = True
                channel.ready.clear()
        self._broken = True
        self._stirred.set()

    def heard(self, name: bytes, payload: bytes) -> None:
        """Something was published."""
        if (channel := self._channels.get(name)) is None:
            return
        if channel.key is None:
            where, _, rest = payload.removeprefix(_SIGNAL).partition(b"\0")
            self._pass_on(key_of(where), rest if payload.startswith(_SIGNAL) else None)
        elif not payload:
            self._pass_on(channel.key, None)
        elif (all := self._channels.get(channel.shard.channel)) is None or not all.ready.is_set():
            # Otherwise it comes by the channel of the shard too, which reaches every watch.
            self._pass_on(channel.key, payload.removeprefix(_SIGNAL))

    def _pass_on(self, key: ConversationKey, signal: bytes | None) -> None:
        if signal is None:
            self._watchers.changed([key])
        else:
            self._watchers.signal(key, signal)


class _Ear:
    """A connection that is subscribed to channels."""

    def __init__(self, news: News, url: RedisUrl, address: Address) -> None:
        self.closed = False
        self._news, self._url, self._address = news, url, address
        self._link: Link | None = None
        self._asked: set[bytes] = set()
        self._confirmed: set[bytes] = set()
        self._listener: asyncio.Task[None] | None = None

    async def tune(self, channels: set[bytes]) -> None:
        """Subscribe to what is new, unsubscribe from the rest."""
        if self._link is None:
            self._link = await dial(self._url, self._address)
            self._listener = asyncio.get_running_loop().create_task(self._listen(self._link))
        kind = b"S" if self._url.cluster else b""
        for command, names in (
            (kind + b"SUBSCRIBE", channels - self._asked),
            (kind + b"UNSUBSCRIBE", self._asked - channels),
        ):
            # One by one: those of a shard go with its slot, and others with theirs.
            commands = [packed((command, name)) for name in names]
            if commands:
                await self._link.send_packed_command(commands, check_health=False)
        self._asked = channels
        self._confirmed &= channels
        for name in self._confirmed:
            self._news.subscribed(name)

    async def close(self) -> None:
        """Hang up."""
        self.closed = True
        if self._link is not None:
            self._link.cut()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self, link: Link) -> None:
        while True:
            try:
                message = await link.read_response(disable_decoding=True, disconnect_on_error=False)
            except (RedisError, OSError) as exc:
                if isinstance(exc, ResponseError) and not isinstance(exc, MovedError):
                    # We may not subscribe. The poll has to do.
                    continue
                break
            match message:
                case [b"subscribe" | b"ssubscribe", name, _]:
                    self._confirmed.add(name)
                    self._news.subscribed(name)
                case [b"message" | b"smessage", name, payload]:
                    self._news.heard(name, payload)
                case [b"sunsubscribe", name, _] if name in self._asked:
                    break
        self.closed = True
        link.cut()
        self._news.lost(self._asked)
