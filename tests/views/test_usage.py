"""What a conversation used."""

from __future__ import annotations

from hypothesis import given
from tests.views.logs import log, logs, says, user

from holdfast.model import Compaction, Event, Usage, UsageReport
from holdfast.views import Price, UsageFold, usage

PRICES = {"big": Price(3, 15, cached=0.3, cache_write=3.75)}


def test_tokens_and_cost_are_counted_by_model_and_turn() -> None:
    """X2"""
    events = log(
        user("1"),
        says("2", model="big", usage=Usage(1_000, 10, cached_tokens=800)),
        user("3"),
        says("4", model="big", usage=Usage(100, 10)),
        Compaction(0, 1, 2, "…", "small", Usage(50, 5, cost=7)),
        UsageReport("title", Usage(1, 1), "tiny"),
    )

    spent = usage(events, PRICES)

    assert (spent.total.input_tokens, spent.total.output_tokens) == (1_151, 26)
    assert spent.by_model["big"].cost == 200 * 3_000 + 800 * 300 + 100 * 3_000 + 20 * 15_000
    assert spent.by_model["small"].cost == 7
    assert spent.unpriced == {"tiny"}
    assert {seq: used.input_tokens for seq, used in spent.by_turn.items()} == {1: 1_000, 3: 151}


def test_what_a_fork_inherited_does_not_count() -> None:
    events = log(says("1", usage=Usage(5)), says("2", usage=Usage(7)))

    assert usage(events, after=1).total.input_tokens == 7


def test_a_price_is_exact() -> None:
    assert Price(0.1, 0.3).of(Usage(3, 1)) == 600
    assert Price(0, 0, cache_write=1).of(Usage(10, 0, 0, 10)) == 10_000


@given(logs())
def test_folding_live_and_folding_the_log_give_the_same(log: list[Event]) -> None:
    live = UsageFold(PRICES)
    for event in (*log, *log):
        live.apply(event)

    spent = usage(log, PRICES)

    assert live.spent == spent
    assert sum(used.output_tokens for used in spent.by_turn.values()) == spent.total.output_tokens
