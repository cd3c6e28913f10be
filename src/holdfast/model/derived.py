"""
What is kept in records beside the log: caches and accounts that can be made from it again.

They are written and read by the same codec as events, so that a newer shape of one has a version too.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.events import Failure, Suspension, Todo
from holdfast.model.messages import JSON, StopReason, Usage


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What an agent needs beside the messages, folded from the log up to ``seq``.

    ``interrupts`` are the waits that have no answer yet. ``metadata`` belongs to the application and its
    middleware; keys that nobody reads any more are kept.
    """

    seq: int = 0
    todos: tuple[Todo, ...] = ()
    metadata: dict[str, JSON] = {}
    interrupts: tuple[Suspension, ...] = ()


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What the model reads instead of the events ``from_seq..to_seq``.

    ``base`` is the revision of the view record that it was computed from.
    """

    from_seq: int
    to_seq: int
    text: str
    base: int = 0
    model: str | None = None
    usage: Usage | None = None


class ModelCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    The audit of one model call: exactly what was sent, and what came of it.

    ``summary`` is the revision of the summary that stood in for older events, ``evicted`` are the seqs
    that were left out without one. ``latency`` and ``first_chunk`` are microseconds from the request on.
    """

    id: str
    model: str
    request: JSON
    at: int = 0
    run: int | None = None
    message_id: str | None = None
    attempt: int = 1
    latency: int | None = None
    first_chunk: int | None = None
    usage: Usage | None = None
    stop: StopReason | None = None
    failure: Failure | None = None
    summary: int | None = None
    evicted: tuple[int, ...] = ()


Derived: TypeAlias = State | Summary | ModelCall
