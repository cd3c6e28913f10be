"""
A process that writes until it is killed.

It is run by its path and imports the store and nothing else, because it is started hundreds of
times. Orders come in as one line of JSON; what it tries and what was acknowledged goes out, one
line each, written before the store is asked and after it answered.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import msgspec

from holdfast.ids import ConversationKey
from holdfast.model.records import CallStatus, Commit
from holdfast.store import Append, MoveCall, Op, OpenCall, PutRecord, SetHeader, Store, Tag, connect

COLLECTION = "crash"
SLOTS = 5
TAG = "marker"
BEFORE, ANSWERED, TOLD = "before the commit", "after the commit", "after its report"

_LIVES: tuple[CallStatus, ...] = ("pending", "executing", "completed")
_OUT = 1


class Move(msgspec.Struct, frozen=True):
    """How a commit moves a call."""

    call_id: str
    before: CallStatus
    to: CallStatus


class Plan(msgspec.Struct, frozen=True):
    """
    One commit, as it is known before it is tried. All of its parts carry the marker.

    The log alone says what the rows must be: each event carries the plan.
    """

    conversation: str
    marker: str
    events: int
    slot: str
    padding: int = 0
    opens: str | None = None
    moves: Move | None = None

    def ops(self) -> list[Op]:
        """The operations: the same each time, so that a commit can be repeated with its token."""
        mark = self.marker.encode()
        ops: list[Op] = [Append("crash", self.event(part), text=self.marker) for part in range(self.events)]
        if self.opens is not None:
            ops.append(OpenCall(self.opens, "crash", data=mark))
        if self.moves is not None:
            ops.append(
                MoveCall(self.moves.call_id, self.moves.to, frozenset((self.moves.before,)), data=mark)
            )
        tag = Tag(TAG, self.conversation, ref=self.marker)
        return [*ops, PutRecord(COLLECTION, self.slot, mark), SetHeader(title=self.marker), tag]

    def event(self, part: int) -> bytes:
        """The data of one of the events."""
        return msgspec.json.encode(Part(self.marker, part, self, "." * self.padding))

    async def commit(self, store: Store, owner: str) -> Commit:
        """Carry it out."""
        key = ConversationKey(owner, self.conversation)
        return await store.commit(key, self.ops(), token=self.marker, create=SetHeader())


class Part(msgspec.Struct, frozen=True):
    """What an event of a plan says."""

    marker: str
    part: int
    plan: Plan
    padding: str


class Death(msgspec.Struct, frozen=True):
    """Die at the n-th time that a point is reached, counted from the first commit or from the start."""

    point: str
    nth: int
    opening: bool = False


class Orders(msgspec.Struct, frozen=True):
    """What a child is to do. ``points`` and ``prepare`` are functions, written as ``file.py:name``."""

    url: str
    owner: str
    writer: str
    conversations: tuple[str, ...]
    tasks: int
    death: Death | None = None
    points: str | None = None
    prepare: str | None = None


class Trying(msgspec.Struct, frozen=True, tag=True):
    """The commit begins now; it may be there from here on."""

    plan: Plan


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    """The store answered; the commit must be there from here on."""

    marker: str
    commit: Commit


class Reached(msgspec.Struct, frozen=True, tag=True):
    """The child dies now, at this point."""

    point: str


Line = Trying | Acknowledged | Reached


def plans(writer: str, conversations: tuple[str, ...]) -> Iterator[Plan]:
    """
    What one task of a writer commits, one after the other, for ever.

    Each commit appends, writes a record that others write too, and changes the header; calls are
    opened and moved by the commits that follow.
    """
    lives: dict[str, tuple[str, int]] = {}
    number = 0
    while True:
        conversation = conversations[number % len(conversations)]
        # A word that is not the beginning of another one, which search would find too.
        marker = f"m{writer}n{number}z"
        opens, moves = None, None
        if conversation in lives:
            call_id, life = lives[conversation]
            moves = Move(call_id, _LIVES[life], _LIVES[life + 1])
            if life + 2 < len(_LIVES):
                lives[conversation] = call_id, life + 1
            else:
                del lives[conversation]
        else:
            opens = marker
            lives[conversation] = marker, 0
        slot = f"slot-{number % SLOTS}"
        padding = 3000 if number % 7 == 3 else 20
        yield Plan(conversation, marker, 1 + number % 3, slot, padding, opens, moves)
        number += 1


def main() -> None:
    """Read the orders, then write until killed."""
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    reaper = _Reaper(orders.death)
    if orders.prepare is not None:
        _function(orders.prepare)()
    if orders.points is not None:
        _function(orders.points)(reaper.reach, orders.url)
    asyncio.run(_write(orders, reaper))


def _function(where: str) -> Callable[..., None]:
    """The function of a file, loaded without the package around it, which takes longer than the work."""
    path, _, name = where.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., None] = getattr(module, name)
    return function


async def _write(orders: Orders, reaper: _Reaper) -> None:
    async with connect(orders.url) as store, asyncio.TaskGroup() as tasks:
        for task in range(orders.tasks):
            tasks.create_task(_write_all(store, orders, f"{orders.writer}t{task}", reaper))


async def _write_all(store: Store, orders: Orders, writer: str, reaper: _Reaper) -> None:
    for plan in plans(writer, orders.conversations):
        _tell(Trying(plan))
        reaper.armed = True
        reaper.reach(BEFORE)
        commit = await plan.commit(store, orders.owner)
        reaper.reach(ANSWERED)
        _tell(Acknowledged(plan.marker, commit))
        reaper.reach(TOLD)


def _tell(line: Line) -> None:
    # One write of less than a pipe's atomic size: a line is there as a whole or not at all.
    os.write(_OUT, msgspec.json.encode(line) + b"\n")


class _Reaper:
    """Counts how often the point of death is reached, and is death."""

    def __init__(self, death: Death | None) -> None:
        self.armed = death is not None and death.opening
        self._death = death
        self._hits = 0

    def reach(self, point: str) -> None:
        if self._death is None or point != self._death.point or not self.armed:
            return
        self._hits += 1
        if self._hits == self._death.nth:
            _tell(Reached(point))
            _die()


def _die() -> NoReturn:
    while True:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
