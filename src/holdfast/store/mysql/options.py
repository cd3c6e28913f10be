"""What a store's URL says."""

from __future__ import annotations

import re
import ssl
from typing import Self
from urllib.parse import unquote, urlsplit

import msgspec

from holdfast.errors import InvalidInput
from holdfast.store.backend import Durability
from holdfast.store.sql.options import choice, number
from holdfast.store.url import StoreUrl

_OURS = frozenset(("prefix", "pool", "timeout", "durability", "ssl_mode", "ssl_ca", "unix_socket"))
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")


class Options(msgspec.Struct, frozen=True):
    """The parts of a URL. ``shown`` is fit for messages."""

    shown: str
    host: str
    port: int
    user: str
    password: str
    database: str
    unix_socket: str | None
    ssl_mode: str
    ssl_ca: str | None
    prefix: str
    pool: int
    timeout: float
    durability: Durability

    @classmethod
    def of(cls, url: str) -> Self:
        """
        Take a URL apart.

        Raises:
            InvalidInput: Something in it can't be right.
        """
        parsed = StoreUrl.parse(url, params=_OURS)
        shown, given, parts = parsed.shown, parsed.params, urlsplit(url)
        try:
            port = parts.port or 3306
        except ValueError:
            raise InvalidInput(f"{shown}: the port is a number up to 65535") from None
        database = parsed.path.strip("/")
        if not database or "/" in database:
            raise InvalidInput(f"{shown} names no database; write mysql://user@host/database")
        prefix = given.get("prefix", "holdfast_")
        if not _PREFIX.fullmatch(prefix):
            raise InvalidInput(
                f"{shown}: prefix is a name of at most 32 letters, digits and _ that begins with no digit"
            )
        return cls(
            shown=shown,
            host=parts.hostname or "127.0.0.1",
            port=port,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            database=database,
            unix_socket=given.get("unix_socket"),
            ssl_mode=choice(shown, given, "ssl_mode", "disabled", "required", "verify_identity"),
            ssl_ca=given.get("ssl_ca"),
            prefix=prefix,
            pool=int(number(shown, given, "pool", "8", least=1)),
            timeout=number(shown, given, "timeout", "30", least=0.01),
            durability=choice(shown, given, "durability", "disk", "os"),
        )

    def encryption(self) -> ssl.SSLContext | None:
        """How to talk to the server so that nobody else can read it."""
        if self.ssl_mode == "disabled":
            return None
        context = ssl.create_default_context(cafile=self.ssl_ca)
        if self.ssl_mode == "required":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
