"""What conversations used, read from their logs."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.conversations.folding import whole_log
from holdfast.errors import NotFound
from holdfast.model import Header, Usage
from holdfast.store import Store
from holdfast.views import Price, Spent, UsageFold

_PAGE = 200

Prices = Mapping[str, Price] | None


async def spent_by(store: Store, header: Header, prices: Prices) -> Spent:
    """The account of one conversation, without what it inherited."""
    fold = UsageFold(prices, after=header.forked_at)
    async for event in whole_log(store, header.key, after=header.forked_at, until=header.last_seq):
        fold.apply(event)
    return fold.spent


async def spent_by_all(store: Store, owner: str, prices: Prices) -> Spent:
    """The account of an owner, by model."""
    cursor = None
    total = Usage()
    by_model: dict[str, Usage] = {}
    unpriced: frozenset[str] = frozenset()
    while headers := await store.headers(owner, order="created", before=cursor, limit=_PAGE):
        for header in headers:
            try:
                spent = await spent_by(store, header, prices)
            except NotFound:
                continue
            total = _sum(total, spent.total)
            for model, used in spent.by_model.items():
                by_model[model] = _sum(by_model.get(model, Usage()), used)
            unpriced |= spent.unpriced
        cursor = (headers[-1].created_at, headers[-1].key.id)
    return Spent(total, by_model, {}, unpriced)


def _sum(one: Usage, other: Usage) -> Usage:
    costs = [used.cost for used in (one, other) if used.cost is not None]
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        one.reasoning_tokens + other.reasoning_tokens,
        sum(costs) if costs else None,
    )
