"""The log as the views read it: decoded events, and which of them were undone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.codec import decode
from holdfast.model.events import Payload, Retract, UnknownEvent
from holdfast.model.records import Event

__all__ = ["Logged", "logged"]


class Logged(msgspec.Struct, frozen=True):
    """An event of the log with its payload decoded, for who folds several views from one log."""

    seq: int
    at: int
    payload: Payload


def logged(event: Event) -> Logged:
    """
    Decode an event, once for all views.

    What can't be read here is an ``UnknownEvent``: one bad event must not make a conversation unreadable.

    >>> logged(Event(1, "cancel", b'{"run":1}', 0)).payload
    Cancel(run=1, actor=None, reason=None)
    """
    return Logged(event.seq, event.at, read(event))


def read(event: Event | Logged) -> Payload:
    """The payload of an event, decoded already or not."""
    if isinstance(event, Logged):
        return event.payload
    try:
        return decode(event.type, event.data)
    except InvalidPayload:
        return UnknownEvent(event.type, event.data)


class Ranges:
    """Ranges of seqs, both ends inclusive; asks in logarithmic time whether a seq lies in one."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if end < start:
                continue
            if self._ends and start <= self._ends[-1] + 1:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self._starts, seq) - 1
        return at >= 0 and seq <= self._ends[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __bool__(self) -> bool:
        return bool(self._starts)


def undone(retracts: Iterable[tuple[int, Retract]]) -> Ranges:
    """
    Which events have no effect any more, given the ``retract`` events with their seqs in order.

    A retract reaches only back. One that was itself undone by a later one has no effect either, so that
    a rewind to a seq gives what the views showed at that seq.
    """
    found: list[tuple[int, int]] = []
    for seq, retract in reversed(list(retracts)):
        if not any(start <= seq <= end for start, end in found):
            found.append((retract.from_seq, min(retract.to_seq, seq - 1)))
    return Ranges(found)
