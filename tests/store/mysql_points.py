"""Places inside the MySQL store where a child of the crash harness dies. Loaded by the child, on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.store.mysql.driver import COMMIT, Pool, Session

SENT, ANSWERED = "a commit is sent", "a commit is answered"


def install(reach: Callable[[str], None], url: str) -> None:
    """Die right before the server gets a commit, or when it has it and nobody was told."""
    write, finish = Pool.write, Session.finish

    async def reaching_write(self: Pool, *statements: bytes) -> Any:
        commits = COMMIT in statements
        if commits:
            reach(SENT)
        results = await write(self, *statements)
        if commits:
            reach(ANSWERED)
        return results

    async def reaching_finish(self: Session, *statements: bytes) -> Any:
        reach(SENT)
        results = await finish(self, *statements)
        reach(ANSWERED)
        return results

    setattr(Pool, "write", reaching_write)  # noqa: B010
    setattr(Session, "finish", reaching_finish)  # noqa: B010
