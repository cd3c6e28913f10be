"""What an application holds: a store, and everything that can be asked of it by the caller's scope."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from holdfast.audit import Audit, AuditPolicy
from holdfast.calls import Calls
from holdfast.clock import Clock, system_clock
from holdfast.conversations import Conversation, Conversations
from holdfast.persistence import AgentStates, DisplayMessages
from holdfast.scopes import ActorOf, OwnerOf, Scopes
from holdfast.store import Store
from holdfast.store import connect as connect_store
from holdfast.store.ops import check_number

__all__ = ["Hub", "connect"]


class Hub:
    """
    The application's door. Use it as an async context manager; ``connect`` makes one.

    ``conversations``, ``calls`` and ``audit`` take the caller's scope first, in every function.
    ``agent_states`` and ``display_messages`` are the two persistence behaviours over the same store.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner_of: OwnerOf | None = None,
        actor_of: ActorOf | None = None,
        unscoped: str | None = None,
        audit: AuditPolicy | None = None,
        max_message: int | None = None,
        clock: Clock = system_clock,
    ) -> None:
        check_number("max_message", max_message, least=1)
        self.store = store
        self._scopes = Scopes(owner_of, actor_of, unscoped=unscoped)
        self._max_message, self._clock = max_message, clock
        self.conversations = Conversations(store, self._scopes, clock=clock, max_message=max_message)
        self.calls = Calls(store, self._scopes, max_message=max_message)
        self.audit = Audit(store, self._scopes, audit, clock=clock)
        self.agent_states = AgentStates(store, self._scopes)
        self.display_messages = DisplayMessages(store, self._scopes, max_message=max_message)

    async def open(self, scope: object, id: str) -> Conversation:
        """
        A conversation for a loop of one's own: restored, or fresh if this scope has none of that id.

        A fresh one is made by its first append.

        Raises:
            InvalidScope: The scope can't be read.
            InvalidKey: The id is not 1 to 1,024 bytes of UTF-8 without NUL.
        """
        conversation = Conversation(
            self.store, self._scopes.key(scope, id), max_message=self._max_message, clock=self._clock
        )
        await conversation.refresh()
        return conversation

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.store.close()


def connect(
    url: str,
    *,
    owner_of: OwnerOf | None = None,
    actor_of: ActorOf | None = None,
    unscoped: str | None = None,
    audit: AuditPolicy | None = None,
    max_message: int | None = None,
    clock: Clock | None = None,
) -> Hub:
    """
    The hub over the store behind a URL, not open yet: use it with ``async with``.

    Args:
        owner_of: Whose conversations a scope may see. Without it a scope is a string, or has ``owner_id``
            or ``user.id``.
        actor_of: Who acts, as it stands in the log. Without it the string that is the scope, or its ``user.id``.
        unscoped: The owner that the scope None stands for; without one, None is refused.
        audit: Which model calls are kept, and for how long. None are by default.
        max_message: The most bytes that a message or result may have, media included.
        clock: For tests; without it the store's own clock counts.

    Raises:
        UnknownStore: No installed store has this scheme.
        MissingExtra: The store needs a package that is not installed.
        InvalidInput: The URL is not one that the store understands, or an option can't work.
    """
    return Hub(
        connect_store(url, clock=clock),
        owner_of=owner_of,
        actor_of=actor_of,
        unscoped=unscoped,
        audit=audit,
        max_message=max_message,
        clock=clock or system_clock,
    )
