"""The Redis store on a cluster that changes under it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest
import redis
from redis.crc import key_slot
from tests.servers.valkey import ValkeyCluster

from holdfast.model.records import Call
from holdfast.store import SetHeader, Store, Tag, Wake, connect
from holdfast.store.redis import RedisStore
from holdfast.testing.build import a_conversation, a_key, interrupted, noted, put, said

from .redis_kit import eventually, say

pytestmark = [pytest.mark.anyio, pytest.mark.server("valkey_cluster")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ValkeyCluster]:
    """A cluster of this file's own: tests here move its slots."""
    cluster = ValkeyCluster().start()
    yield cluster
    cluster.stop()


@pytest.fixture
def url(cluster: ValkeyCluster) -> str:
    return f"{cluster.url}&durability=memory&prefix={uuid4().hex}&shards=6"


class Slot:
    """A slot on its way from the node that has it to the next one."""

    def __init__(self, cluster: ValkeyCluster, slot: int) -> None:
        self.slot = slot
        clients = [redis.Redis(port=node.port) for node in cluster.nodes]
        here = next(i for i, client in enumerate(clients) if self._is_at(client))
        self.source, self.target = clients[here], clients[(here + 1) % len(clients)]
        self.port = cluster.nodes[(here + 1) % len(clients)].port

    def begin(self) -> None:
        """Open the slot at both ends."""
        say(self.target, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", self._id(self.source))
        say(self.source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", self._id(self.target))

    def move(self, most: int = 1) -> bool:
        """Move some keys; False if there was none."""
        keys = say(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, most)
        if keys:
            say(self.source, "MIGRATE", "127.0.0.1", self.port, "", 0, 5000, "KEYS", *keys)
        return bool(keys)

    def end(self) -> None:
        """Give the slot to the other node."""
        for client in (self.target, self.source):
            say(client, "CLUSTER", "SETSLOT", self.slot, "NODE", self._id(self.target))

    def _id(self, client: redis.Redis) -> bytes:
        name: bytes = say(client, "CLUSTER", "MYID")
        return name

    def _is_at(self, client: redis.Redis) -> bool:
        me, slots = self._id(client), say(client, "CLUSTER", "SLOTS")
        return any(first <= self.slot <= last and node[2] == me for first, last, node, *_ in slots)


async def test_everything_of_an_owner_is_in_one_slot_and_owners_are_spread(url: str) -> None:
    async with connect(url) as store:
        assert isinstance(store, RedisStore)
        owners = [f"owner {n}" for n in range(60)]
        for owner in owners:
            await a_conversation(store, "c-1", owner, ops=[said("hi"), put("a"), Tag("a", "b"), Wake()])
        found: dict[int, set[bytes]] = {}
        for address in store._nodes.addresses:
            for key in say(redis.Redis(*address), "KEYS", f"*{store._asked.prefix}*owner*"):
                found.setdefault(key_slot(key), set()).add(key)

    assert len(found) == 6
    for owner in owners:
        name = owner.encode()
        homes = [
            slot
            for slot, keys in found.items()
            if any(key.endswith(name) or name + b":" in key for key in keys)
        ]
        assert len(homes) == 1


async def test_the_nodes_share_the_shards(url: str) -> None:
    async with connect(url) as store:
        assert isinstance(store, RedisStore)

        assert len({store._nodes.address(shard) for shard in store._keys.shards}) > 1
        assert len(store._nodes.addresses) == 3


async def test_commits_go_on_while_slots_move_and_none_is_lost(cluster: ValkeyCluster, url: str) -> None:
    async with connect(url) as store, connect(url) as reader:
        assert isinstance(store, RedisStore)
        written = [await a_conversation(store, "c-1", f"owner {n}", ops=[Tag("a", "b")]) for n in range(12)]
        slots = [Slot(cluster, shard.slot) for shard in store._keys.shards]
        counts = dict.fromkeys(written, 0)
        stop = False

        async def write(store: Store) -> None:
            number = 0
            while not stop:
                key = written[number % len(written)]
                await store.commit(key, [noted(counts[key]), put("count", b"%d" % counts[key])])
                counts[key] += 1
                number += 1

        async def read(store: Store) -> None:
            while not stop:
                for key in written:
                    loaded = await store.load(key, records=[("notes", "count")])
                    assert [event.seq for event in loaded.events] == list(
                        range(1, loaded.header.last_seq + 1)
                    )
                    assert len(await store.find(key.owner, "a", "b")) == 1
                assert len(await store.owners()) == len(written)

        tasks = [asyncio.create_task(write(store)), asyncio.create_task(read(reader))]
        for slot in slots:
            await asyncio.to_thread(slot.begin)
            while await asyncio.to_thread(slot.move):
                pass
            await asyncio.to_thread(slot.end)
            before = dict(counts)
            await eventually(lambda before=before: all(counts[k] > before[k] for k in written))  # type: ignore[misc]
        stop = True
        await asyncio.gather(*tasks)

        for key, count in counts.items():
            events = await reader.events(key)
            assert [event.data for event in events] == [b"%d" % n for n in range(count)]


async def test_a_watch_follows_its_slot(cluster: ValkeyCluster, url: str) -> None:
    async with connect(url) as store, connect(url) as other:
        assert isinstance(store, RedisStore)
        key = await a_conversation(store)
        slot = Slot(cluster, store._keys.place(key).shard.slot)

        async with store.watch([key]) as notices, asyncio.timeout(30):
            slot.begin()
            while slot.move(100):
                pass
            slot.end()
            await other.commit(key, [noted(1)])
            assert (await anext(notices)).key == key

            async def send() -> None:
                while True:
                    await other.signal(key, b"hello")
                    await asyncio.sleep(0.01)

            sending = asyncio.create_task(send())
            while (await anext(notices)).payload != b"hello":
                pass
            sending.cancel()


async def test_due_calls_work_and_owners_are_found_on_every_node(url: str) -> None:
    owners = sorted(f"owner {n:02}" for n in range(20))
    async with connect(url) as store:
        for owner in owners:
            await store.commit(
                a_key(owner=owner), [interrupted("call", expires_in=0.001), Wake()], create=SetHeader()
            )
        due: list[Call] = []
        async with asyncio.timeout(30):
            while len(due) < len(owners):
                due = await store.due()

        claimed = await store.claim("holder", limit=100, ttl=10)

        assert sorted(call.key.owner for call in due) == owners
        assert [call.expires_at for call in due] == sorted(call.expires_at or 0 for call in due)
        assert sorted(lease.key.owner for lease in claimed) == owners
        assert await store.owners(limit=7) == owners[:7]
        assert await store.owners(after=owners[6], limit=100) == owners[7:]
