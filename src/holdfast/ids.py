"""Names that cross every layer: the key of a conversation, and the rule that all names obey."""

from __future__ import annotations

import msgspec

from holdfast.errors import InvalidKey

MAX_NAME_BYTES = 1024


def check_name(field: str, value: object, *, empty: bool = False) -> None:
    """
    Refuse what some backend could not keep apart from another name.

    A name is 1 to 1,024 bytes of UTF-8 without NUL. Anything else is legal in it: separators,
    spaces, quotes, any language.

    Raises:
        InvalidKey: ``value`` is not such a name.
    """
    if type(value) is not str:
        raise InvalidKey(field, f"must be a string, not {type(value).__name__}")
    if not value:
        if empty:
            return
        raise InvalidKey(field, "must not be empty")
    if "\0" in value:
        raise InvalidKey(field, "must not contain NUL")
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise InvalidKey(field, "contains a lone surrogate, which is not valid UTF-8") from None
    if size > MAX_NAME_BYTES:
        raise InvalidKey(field, f"has {size:,} bytes; at most {MAX_NAME_BYTES:,} are allowed")


class ConversationKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """
    The address of a conversation: whose it is, and which one.

    The owner is part of the key in every call at every layer, so another tenant's conversation
    can't be named at all.

    >>> ConversationKey("user-1", "trip-42")
    ConversationKey(owner='user-1', id='trip-42')

    Raises:
        InvalidKey: Owner or id is not 1 to 1,024 bytes of UTF-8 without NUL.
    """

    owner: str
    id: str

    def __post_init__(self) -> None:
        check_name("owner", self.owner)
        check_name("conversation id", self.id)

    def __str__(self) -> str:
        return f"{self.owner!r}/{self.id!r}"
