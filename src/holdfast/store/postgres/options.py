"""What a store's URL says."""

from __future__ import annotations

import re
from typing import Any, Self
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from holdfast.errors import InvalidInput
from holdfast.store.backend import Durability
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
            pool=int(_number(shown, given, "pool", "8", least=1)),
            timeout=_number(shown, given, "timeout", "30", least=0.01),
            pooled=_choice(shown, given, "pooling", "session", "transaction") == "transaction",
            durability=_choice(shown, given, "durability", "disk", "os", "replicated"),
            row_security=_choice(shown, given, "row_security", "off", "on") == "on",
        )


def _choice(shown: str, given: dict[str, str], name: str, default: str, *others: str) -> Any:
    value = given.get(name, default)
    if value not in (default, *others):
        raise InvalidInput(f"{shown}: {name} is {' or '.join((default, *others))}, not {value!r}")
    return value


def _number(shown: str, given: dict[str, str], name: str, default: str, *, least: float) -> float:
    value = given.get(name, default)
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number < 1e6:
        raise InvalidInput(f"{shown}: {name} is a number from {least:g} up, not {value!r}")
    return number
