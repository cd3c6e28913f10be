"""
Which incarnation of a conversation is the current one.

A conversation that is deleted and made anew gets a new incarnation. Whoever makes it writes a root,
named for the incarnation that ended before, so of all that want to, one can. Of what ended long ago
nothing is left in the end, and the name of a root must never be used twice: a writer that was
stopped in the middle could still use or remove it. So a conversation of which nothing is known
begins with a root that is named for the hour. Somebody else's clock may still be in the hour
before, which is why that name is taken away first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.clock import SECOND
from holdfast.store.objects.packing import decoder

HOUR = 3600
SKEW = 300
"""Seconds by which the clocks of two hosts may differ when both make the same conversation."""
RETAIN = 3 * HOUR
"""Seconds for which the names of what ended stay taken."""

EPOCH = 1_577_836_800
"""Incarnations count seconds from 2020 on, so that numbers made of them fit into 63 bits until 2088."""

_REMEMBERED = 32


class Root(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    The beginning of an incarnation. ``dead`` are names of roots that were used up before.

    Without a ``uid`` it only keeps its name from being used.
    """

    incarnation: int
    uid: str = ""
    dead: tuple[str, ...] = ()


class Absent(msgspec.Struct, frozen=True):
    """A conversation that is not there: the roots of what it was, and what the next one must say."""

    roots: frozenset[str]
    last: str | None
    after: int
    dead: tuple[str, ...]

    def incarnation(self, now: int) -> int:
        """A number for the next incarnation: greater than every one before, whatever the clock says."""
        return max(now // SECOND - EPOCH, self.after + 1)

    def root(self, now: int) -> tuple[str, str | None]:
        """The name that the next root must have, and one that has to be taken away before."""
        if self.last is not None:
            return self.last, None
        hour, seconds = divmod(now // SECOND, HOUR)
        before = _hour(hour - 1) if seconds < SKEW and _hour(hour - 1) not in self.roots else None
        while _hour(hour) in self.roots:
            hour += 1
        return _hour(hour), before


decode_root = decoder(Root)


def current(roots: Mapping[str, Root], closed: Collection[str]) -> tuple[str, Root] | Absent:
    """The name and the root of the incarnation that lives, or that none does."""
    used_up = {name for root in roots.values() for name in root.dead}
    begun = {name: root for name, root in roots.items() if root.uid and name not in used_up}
    if living := {name: root for name, root in begun.items() if root.uid not in closed}:
        return max(living.items(), key=_age)
    after = max((root.incarnation for root in roots.values()), default=0)
    # What ended, and whose name for a successor is taken away, is being removed.
    ended = {name: root for name, root in begun.items() if root.uid not in roots}
    last = max(ended.items(), key=_age)[1] if ended else None
    dead = dict.fromkeys((*(last.dead if last else ()), *sorted(roots)))
    return Absent(frozenset(roots), last.uid if last else None, after, tuple(dead)[-_REMEMBERED:])


def _age(item: tuple[str, Root]) -> tuple[int, str]:
    name, root = item
    return root.incarnation, name


def _hour(number: int) -> str:
    return f"h{number}"
