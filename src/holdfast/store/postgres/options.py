"""What a store's URL says."""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from holdfast.errors import InvalidInput
from holdfast.store.backend import Durability
from holdfast.store.sql.options import choice, number
from holdfast.store.url import StoreUrl

_OURS = frozenset(("schema", "pool", "timeout", "pooling", "durability", "row_security"))
_PLACE = frozenset(("host", "port", "user", "dbname", "passfile", "service", "target_session_attrs"))
_SECURITY = frozenset(
    ("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslnegotiation", "krbsrvname", "gsslib")
)
_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,47}")


class Options(msgspec.Struct, frozen=True):
    """
    The parts of a URL. ``dsn`` is what the driver gets, ``shown`` is fit for messages.

    ``pooled``: a proxy may give each transaction another connection.
    """

    shown: str
    dsn: str
    schema: str
    pool: int
    timeout: float
    pooled: bool
    durability: Durability
    row_security: bool

    @classmethod
    def of(cls, url: str) -> Self:
        """
        Take a URL apart.

        Raises:
            InvalidInput: Something in it can't be right.
        """
        parsed = StoreUrl.parse(url, params=_OURS | _PLACE | _SECURITY)
        shown, given = parsed.shown, parsed.params
        theirs = {name: value for name, value in given.items() if name not in _OURS}
        schema = given.get("schema", "holdfast")
        if not _SCHEMA.fullmatch(schema):
            raise InvalidInput(
                f"{shown}: schema is a name of at most 48 letters, digits and _ that does not begin with pg_"
            )
        return cls(
            shown=shown,
            dsn=urlunsplit(urlsplit(url)._replace(query=urlencode(theirs))),
            schema=schema,
            pool=int(number(shown, given, "pool", "8", least=1)),
            timeout=number(shown, given, "timeout", "30", least=0.01),
            pooled=choice(shown, given, "pooling", "session", "transaction") == "transaction",
            durability=choice(shown, given, "durability", "disk", "os", "replicated"),
            row_security=choice(shown, given, "row_security", "off", "on") == "on",
        )
