"""Places inside the PostgreSQL store where a child of the crash harness dies. Loaded by the child, on its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.store.postgres.kernel import Kernel

SENT, ANSWERED = "a group is sent", "a group is answered"


def install(reach: Callable[[str], None], url: str) -> None:
    """Die right before the server gets a group, or when it has it and nobody was told."""
    for name in ("append", "_write"):
        setattr(Kernel, name, _reaching(reach, getattr(Kernel, name)))


def _reaching(
    reach: Callable[[str], None], method: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    async def write(*arguments: Any) -> Any:
        reach(SENT)
        answer = await method(*arguments)
        reach(ANSWERED)
        return answer

    return write
