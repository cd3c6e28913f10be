"""What the tests of every topic share: how they run, and the stores they are given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import pytest

from holdfast.errors import HoldfastError
from holdfast.store import Store
from holdfast.testing.clock import FakeClock
from holdfast.testing.kit import StoreKit

_T = TypeVar("_T")


class Topic:
    """A part of the suite. Whoever inherits it gives a fixture ``kit``, over an empty place."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    async def store(self, kit: StoreKit, clock: FakeClock) -> AsyncIterator[Store]:
        async with kit.open(clock=clock) as store:
            yield store

    @pytest.fixture
    async def other(self, kit: StoreKit, clock: FakeClock, store: Store) -> AsyncIterator[Store]:
        """A second store over the same data, as another process would have it."""
        async with kit.open(clock=clock) as other:
            yield other


async def race(*runners: Awaitable[_T], loses: type[HoldfastError]) -> tuple[list[_T], list[HoldfastError]]:
    """Run all at once: the results of those that won, and the errors of those that lost."""
    outcomes = await asyncio.gather(*runners, return_exceptions=True)
    won: list[_T] = []
    lost: list[HoldfastError] = []
    for outcome in outcomes:
        if isinstance(outcome, loses):
            lost.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            won.append(outcome)
    return won, lost
