"""
Who is calling: the one place where tenancy is decided.

A scope is the caller's identity as the application knows it. It is given with every call, read here, and
never stored; what is stored is the owner and the actor that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

from holdfast.errors import InvalidScope
from holdfast.ids import ConversationKey, check_name

__all__ = ["ActorOf", "OwnerOf", "Scopes"]

OwnerOf: TypeAlias = Callable[[Any], str]
"""Whose conversations a scope may see: a user, or an organisation."""

ActorOf: TypeAlias = Callable[[Any], str | None]
"""Who acts: what stands in the log beside what a person did."""

# What a function raises when a scope does not have what it looks for. Anything else is the
# application's own word, such as "not logged in", and passes.
_UNREADABLE = (AttributeError, LookupError, TypeError)


class Scopes:
    """
    Reads scopes.

    Without ``owner_of``, a scope is a string, or has ``owner_id`` or ``user.id``: a string, a number or a UUID.
    ``unscoped`` is the owner that the scope None stands for; without it None is refused.

    >>> Scopes().owner("user-1"), Scopes(lambda scope: scope["org"]).owner({"org": "acme"})
    ('user-1', 'acme')

    Raises:
        InvalidKey: ``unscoped`` can't be an owner.
    """

    def __init__(
        self, owner_of: OwnerOf | None = None, actor_of: ActorOf | None = None, *, unscoped: str | None = None
    ) -> None:
        if unscoped is not None:
            check_name("unscoped owner", unscoped)
        self._owner_of, self._actor_of, self._unscoped = owner_of, actor_of, unscoped

    def owner(self, scope: object) -> str:
        """
        The owner of what this scope sees.

        Raises:
            InvalidScope: It can't be read.
            InvalidKey: What was read can't be an owner.
        """
        if scope is None:
            if self._unscoped is None:
                raise InvalidScope(scope, "sees nothing; name an owner for it with unscoped=")
            return self._unscoped
        if self._owner_of is None:
            return _default_owner(scope)
        try:
            owner = self._owner_of(scope)
        except _UNREADABLE as exc:
            raise InvalidScope(scope, f"can't be read by owner_of ({type(exc).__name__})") from exc
        if type(owner) is not str:
            raise InvalidScope(scope, f"has no owner: owner_of gave a {type(owner).__name__}, not a string")
        return owner

    def actor(self, scope: object) -> str | None:
        """
        Who acts, or None if the scope does not say.

        Raises:
            InvalidScope: It can't be read.
        """
        if scope is None:
            return None
        if self._actor_of is None:
            return _text(scope if isinstance(scope, str) else _user_id(scope))
        try:
            actor = self._actor_of(scope)
        except _UNREADABLE as exc:
            raise InvalidScope(scope, f"can't be read by actor_of ({type(exc).__name__})") from exc
        if actor is not None and type(actor) is not str:
            raise InvalidScope(scope, f"has no actor: actor_of gave a {type(actor).__name__}, not a string")
        return actor

    def key(self, scope: object, id: str) -> ConversationKey:
        """
        The address of a conversation of this scope.

        Raises:
            InvalidScope: The scope can't be read.
            InvalidKey: The id is not 1 to 1,024 bytes of UTF-8 without NUL.
        """
        return ConversationKey(self.owner(scope), id)


def _default_owner(scope: object) -> str:
    found = scope if isinstance(scope, str) else getattr(scope, "owner_id", None)
    if found is None:
        found = _user_id(scope)
    if found is None:
        raise InvalidScope(
            scope, "has no owner_id and no user.id; say whose it is with owner_of=lambda scope: …"
        )
    owner = _text(found)
    if owner is None:
        raise InvalidScope(
            scope, f"has an owner that is a {type(found).__name__}, not a string, a number or a UUID"
        )
    return owner


def _user_id(scope: object) -> object:
    return getattr(getattr(scope, "user", None), "id", None)


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return str.__str__(value)
    if (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, UUID):
        return str(value)
    return None
