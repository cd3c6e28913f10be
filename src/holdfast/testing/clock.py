"""A clock that tests move."""

from __future__ import annotations

from holdfast.clock import SECOND, microseconds


class FakeClock:
    """
    A clock that stands still until it is told to move, backward too.

    >>> clock = FakeClock()
    >>> before = clock()
    >>> clock.advance(seconds=1.5)
    >>> clock() - before
    1500000
    """

    def __init__(self, at: int = 1_750_000_000 * SECOND) -> None:
        self._at = at

    def __call__(self) -> int:
        return self._at

    def advance(self, seconds: float) -> None:
        """Move by seconds; a negative number moves back."""
        self._at += microseconds(seconds)

    def set(self, at: int) -> None:
        """Stand at a time, in microseconds since 1970."""
        self._at = at
