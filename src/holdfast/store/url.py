"""Store URLs: taking them apart, and showing them without their password."""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import msgspec

from holdfast.errors import InvalidInput

_PASSWORD = re.compile(r"(\w*password)=[^&]*")


class StoreUrl(msgspec.Struct, frozen=True):
    """A store's URL in parts. ``shown`` is fit for messages and logs."""

    scheme: str
    host: str
    path: str
    params: dict[str, str]
    shown: str

    @classmethod
    def parse(cls, url: str, *, params: frozenset[str]) -> Self:
        """
        Take a URL apart.

        Raises:
            InvalidInput: It has a parameter that this store does not know.
        """
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(set(given) - params):
            known = f"it knows {', '.join(sorted(params))}" if params else "it has none"
            raise InvalidInput(f"{hide_password(url)} has an unknown parameter {unknown[0]!r}; {known}")
        return cls(parts.scheme, parts.netloc, unquote(parts.path), given, hide_password(url))


def hide_password(url: str) -> str:
    """The URL with stars for its password, wherever it stands."""
    parts = urlsplit(url)
    if "password=" in parts.query:
        parts = parts._replace(query=_PASSWORD.sub(r"\1=***", parts.query))
        url = urlunsplit(parts)
    if "@" not in parts.netloc:
        return url
    login, _, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    return urlunsplit(parts._replace(netloc=f"{user}{':***' if colon else ''}@{host}"))
