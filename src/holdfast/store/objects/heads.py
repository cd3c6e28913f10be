"""
What this process knows of conversations, and how it finds out.

A state is only ever extended by the next entry of its chain. While it was known to be the newest at
most ``trust`` seconds ago, no entry after it can have been collected: then the next entry is either
there, or does not exist. A state that is older is looked up again from the newest checkpoint.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.clock import SECOND, Clock
from holdfast.errors import NotFound, StoreError, StoreUnavailable
from holdfast.ids import ConversationKey
from holdfast.store.objects import names
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.names import Listing, Parts, Place
from holdfast.store.objects.roots import RETAIN, Absent, current, decode_root
from holdfast.store.objects.state import (
    State,
    born,
    decode_checkpoint,
    decode_entry,
    extended,
    fold,
    restored,
)

MAX_SLOTS = 4096
MAX_BYTES = 128 << 20
_WEIGHED = 64
_FOLLOWED = 4
_TRIES = 40
_PAUSE = 0.005


def _boot_time() -> float:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Stamp(NamedTuple):
    """A moment, by the store's clock and by one that nobody sets and that goes on in a machine's sleep."""

    clock: int
    boot: float


class Slot:
    """What is known of one conversation. The lock is held by who writes to it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.lock = asyncio.Lock()
        self.state: State | None = None
        self.known = Stamp(0, float("-inf"))
        self.merging = False
        self.collected = float("-inf")
        self.pause = 0.0
        self.polite_until = float("-inf")

    @property
    def idle(self) -> bool:
        return not self.merging and not self.lock.locked()


class Heads:
    """The newest states that this process knows, for a number of conversations."""

    def __init__(self, bucket: Bucket, clock: Clock, trust: float) -> None:
        self.trust = trust
        self._bucket = bucket
        self._clock = clock
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._added = 0

    def stamp(self) -> Stamp:
        """Now."""
        return Stamp(self._clock(), _boot_time())

    def age(self, stamp: Stamp) -> float:
        """Seconds since a moment, by the clock that says more."""
        now = self.stamp()
        return max((now.clock - stamp.clock) / SECOND, now.boot - stamp.boot)

    def slot(self, folder: str) -> Slot:
        """The place for what is known of a conversation."""
        slot = self._slots.get(folder)
        if slot is None:
            slot = self._slots[folder] = Slot(folder)
            self._evict()
        self._slots.move_to_end(folder)
        return slot

    def advance(self, slot: Slot, state: State, known: Stamp) -> None:
        """Note a state; of an older one of the same chain, only what is new in it."""
        old = slot.state
        if old is not None and old.place == state.place:
            if state.n < old.n:
                return
            if state.version < old.version:
                state = extended(old, state.tail)
            known = max(known, slot.known, key=lambda stamp: stamp.boot) if state.n == old.n else known
        slot.state, slot.known = state, known

    def forget(self, slot: Slot) -> None:
        """Look everything up anew next time."""
        slot.state, slot.known = None, Stamp(0, float("-inf"))

    async def state(self, key: ConversationKey) -> State:
        """
        A conversation as it is now.

        Raises:
            NotFound: There is no such conversation for this owner.
        """
        found = await self.fresh(names.folder(key))
        if isinstance(found, Absent):
            raise NotFound(key)
        if found.key != key:
            raise StoreError(f"{key} and {found.key} have the same hash; choose another id")
        return found

    async def states(self, folders: Iterable[str]) -> list[State]:
        """Those of some conversations that are there, as they are now."""
        found = await asyncio.gather(*map(self.fresh, dict.fromkeys(folders)))
        return [state for state in found if isinstance(state, State)]

    async def trusted(self, folder: str) -> tuple[State | Absent, Stamp]:
        """
        A conversation as it was at a moment not long ago, and that moment.

        That is good enough to write after: it works only if nobody else did.
        """
        slot = self.slot(folder)
        if slot.state is not None and not slot.state.closed and self.age(slot.known) <= self.trust:
            return slot.state, slot.known
        return await self._newest(slot)

    async def fresh(self, folder: str) -> State | Absent:
        """A conversation as it is now."""
        found, _ = await self._newest(self.slot(folder))
        return found

    async def _newest(self, slot: Slot) -> tuple[State | Absent, Stamp]:
        if slot.state is not None and self.age(slot.known) <= self.trust:
            followed = await self._follow(slot, slot.state, slot.known)
            if followed is not None:
                return followed
        return await self._load(slot)

    async def _follow(self, slot: Slot, state: State, known: Stamp) -> tuple[State, Stamp] | None:
        """Go along the chain to its end; None if it has to be looked up."""
        for _ in range(_FOLLOWED):
            if state.closed:
                return None
            stamp = self.stamp()
            body = await self._bucket.get(state.place.log(state.n + 1))
            if self.age(known) > self.trust or body == b"":
                return None
            if body is None:
                self.advance(slot, state, stamp)
                return state, stamp
            state = fold(state, decode_entry(body))
            self.advance(slot, state, known)
        return None

    async def _load(self, slot: Slot) -> tuple[State | Absent, Stamp]:
        for attempt in range(_TRIES):
            stamp = self.stamp()
            found = await self._look(slot)
            if found is None or self.age(stamp) > self.trust:
                # Something was merged and collected under our eyes, or we were stopped.
                await asyncio.sleep(_PAUSE * attempt)
                continue
            if isinstance(found, Absent):
                self.forget(slot)
            else:
                self.advance(slot, found, stamp)
            return found, stamp
        raise StoreUnavailable(f"{slot.folder} changes faster than it is read, or objects of it are missing")

    async def _look(self, slot: Slot) -> State | Absent | None:
        """Read what a listing shows; None if that is not there any more."""
        page, complete = await self._bucket.page(slot.folder)
        listing = Listing.of(page)
        closed = {uid for uid, parts in listing.incarnations.items() if parts.closed is not None}
        while True:
            root = await self._current(slot, listing, closed)
            if root is None or isinstance(root, Absent):
                return root
            place = Place(slot.folder, root)
            parts = listing.incarnations.get(root, Parts()) if complete else await self._parts(place)
            if parts.closed is None:
                state = await self.read(place, parts, complete=complete, known=slot.state)
                if state is None or not state.closed:
                    return state
            closed.add(root)

    async def _current(self, slot: Slot, listing: Listing, closed: set[str]) -> str | Absent | None:
        """The uid of the incarnation that lives; None if a root that is listed is not there any more."""
        known = slot.state
        if known and [*listing.roots] == [known.root] and self.age(slot.known) < RETAIN / 2:
            uid = known.place.uid
            if uid not in closed:
                return uid
        bodies = await asyncio.gather(
            *(self._bucket.get(names.root(slot.folder, name)) for name in listing.roots)
        )
        if not all(bodies):
            return None
        roots = {name: decode_root(body) for name, body in zip(listing.roots, bodies, strict=True) if body}
        found = current(roots, closed)
        return found if isinstance(found, Absent) else found[1].uid

    async def _parts(self, place: Place) -> Parts:
        """The newest checkpoints, where there are too many objects for one page."""
        page, _ = await self._bucket.page(place.checkpoints)
        parts = Listing.of(page).incarnations.get(place.uid, Parts())
        if await self._bucket.get(place.closed) is not None:
            parts.closed = 0
        return parts

    async def read(
        self, place: Place, parts: Parts, *, complete: bool = True, known: State | None = None
    ) -> State | None:
        """
        The state that the objects of an incarnation make; None if some are not there any more.

        What is ``known`` of the same checkpoint needs no reading. Where the parts are not
        ``complete``, the entries are listed.
        """
        version = max(parts.checkpoints, default=0)
        state = known if known and (known.place, known.version) == (place, version) else None
        if state is None and version:
            body = await self._bucket.get(place.checkpoint(version))
            if body is None:
                return None
            state = restored(place, decode_checkpoint(body))
        logs = parts.logs
        if not complete:
            after = place.log(state.n) if state else None
            listed = await self._bucket.listed(place.logs, after=after)
            logs = Listing.of(listed).incarnations.get(place.uid, parts).logs
        n = first = state.n if state else 0
        while n + 1 in logs:
            n += 1
        bodies = await asyncio.gather(*(self._bucket.get(place.log(i)) for i in range(first + 1, n + 1)))
        for body in bodies:
            if not body:
                return None
            entry = decode_entry(body)
            state = fold(state or born(place, entry), entry)
        return state

    def _evict(self) -> None:
        self._added += 1
        if len(self._slots) <= MAX_SLOTS and self._added % _WEIGHED:
            return
        size = sum(slot.state.size for slot in self._slots.values() if slot.state)
        for folder, slot in list(self._slots.items()):
            if len(self._slots) <= MAX_SLOTS and size <= MAX_BYTES:
                return
            if slot.idle:
                size -= slot.state.size if slot.state else 0
                del self._slots[folder]
