"""
How payloads of older versions become those of this one.

A payload without ``v`` has version 1. To change a shape: change its struct, add a step from the version
before, and keep a payload of that version in ``tests/model/payloads``. A new value of a ``Literal`` is a
change of shape too: readers that do not know it must see a version that they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Plain: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Plain], Plain]


class Upcasts:
    """
    Steps from each version to the next, by the name of the shape.

    Raises:
        ValueError: A step is missing or there twice, so that some version could not be read.
    """

    def __init__(self, steps: Iterable[tuple[str, int, Step]]) -> None:
        self._chains: dict[str, list[Step]] = {}
        for name, version, step in sorted(steps, key=lambda given: given[:2]):
            chain = self._chains.setdefault(name, [])
            if version != len(chain) + 1:
                raise ValueError(
                    f"the upcasts of {name!r} have a step from version {version} where one from version "
                    f"{len(chain) + 1} belongs; every version needs exactly one"
                )
            chain.append(step)

    @property
    def names(self) -> frozenset[str]:
        """The shapes that have more than one version."""
        return frozenset(self._chains)

    def version(self, name: str) -> int:
        """The version in which this shape is written today."""
        return len(self._chains.get(name, ())) + 1

    def apply(self, name: str, version: int, payload: Plain) -> Plain:
        """A payload of ``version`` as it is written today."""
        for step in self._chains.get(name, [])[version - 1 :]:
            payload = step(payload)
        return payload


def _message_with_parts(old: Plain) -> Plain:
    """Version 1 had one ``text`` and a list of ``calls``, which could not say what stood between them."""
    if "parts" in old:
        raise ValueError("it has parts, which came with version 2; is its v missing?")
    new = {key: value for key, value in old.items() if key not in ("text", "calls")}
    text = old.get("text", "")
    new["parts"] = [
        *([{"type": "text", "text": text}] if text else []),
        *({"type": "tool_call", **call} for call in old.get("calls", ())),
    ]
    return new


UPCASTS = Upcasts([("message", 1, _message_with_parts)])
