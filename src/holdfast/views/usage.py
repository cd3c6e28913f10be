"""What a conversation used: tokens and cost, by model, by turn and in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

import msgspec

from holdfast.model.events import Compaction, UsageReport
from holdfast.model.messages import Message, Usage
from holdfast.model.records import Event
from holdfast.views.log import Logged, read

__all__ = ["Price", "Spent", "UsageFold", "usage"]


class Price(msgspec.Struct, frozen=True):
    """
    What a model costs, in dollars for a million tokens.

    Without a price of their own, tokens read from or written to a cache cost what input costs.

    >>> Price(3, 15).of(Usage(1_000, 100))
    4500000
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def of(self, used: Usage) -> int:
        """The cost of a model call in billionths of a dollar."""
        fresh = used.input_tokens - used.cached_tokens - used.cache_write_tokens
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        thousandths = (
            fresh * Fraction(str(self.input))
            + used.cached_tokens * Fraction(str(cached))
            + used.cache_write_tokens * Fraction(str(written))
            + used.output_tokens * Fraction(str(self.output))
        )
        return round(thousandths * 1_000)


class Spent(msgspec.Struct, frozen=True):
    """
    The account of a conversation.

    ``by_model`` has ``""`` for calls that name no model, ``by_turn`` the seq of the user's message that
    began the turn, or 0. A ``cost`` counts what is known; ``unpriced`` are the models of which a call had
    neither a cost nor a price, so if it is empty the costs are whole.
    """

    total: Usage = Usage()
    by_model: dict[str, Usage] = {}
    by_turn: dict[int, Usage] = {}
    unpriced: frozenset[str] = frozenset()


def usage(
    events: Iterable[Event | Logged], prices: Mapping[str, Price] | None = None, *, after: int = 0
) -> Spent:
    """
    Tokens and cost of these events; a cost that the event names is taken before one of ``prices``.

    What was undone was still paid for and counts. Give a fork's ``forked_at`` as ``after``: what it
    inherited does not count.

    >>> usage([]).total.input_tokens
    0
    """
    fold = UsageFold(prices, after=after)
    for event in events:
        fold.apply(event)
    return fold.spent


class UsageFold:
    """The same, kept up to date while the log grows."""

    def __init__(self, prices: Mapping[str, Price] | None = None, *, after: int = 0) -> None:
        self._prices = dict(prices or {})
        self._seq = after
        self._turn = 0
        self._total = Usage()
        self._by_model: dict[str, Usage] = {}
        self._by_turn: dict[int, Usage] = {}
        self._unpriced: set[str] = set()

    @property
    def spent(self) -> Spent:
        """The account as it stands."""
        return Spent(self._total, dict(self._by_model), dict(self._by_turn), frozenset(self._unpriced))

    def apply(self, event: Event | Logged) -> None:
        """Take the next event of the log; one that was applied already changes nothing."""
        if event.seq <= self._seq:
            return
        self._seq = event.seq
        payload = read(event)
        if not isinstance(payload, (Message, Compaction, UsageReport)):
            return
        if isinstance(payload, Message) and payload.role == "user":
            self._turn = event.seq
        if (used := payload.usage) is None:
            return
        model = payload.model or ""
        if used.cost is None and (price := self._prices.get(model)) is not None:
            used = msgspec.structs.replace(used, cost=price.of(used))
        if used.cost is None:
            self._unpriced.add(model)
        self._total = _sum(self._total, used)
        self._by_model[model] = _sum(self._by_model.get(model), used)
        self._by_turn[self._turn] = _sum(self._by_turn.get(self._turn), used)


def _sum(one: Usage | None, other: Usage) -> Usage:
    if one is None:
        return other
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        one.reasoning_tokens + other.reasoning_tokens,
        other.cost if one.cost is None else one.cost + (other.cost or 0),
    )
