"""The URL of a Redis or Valkey store, and what it asks for."""

from __future__ import annotations

import re
from typing import Any, Self, get_args
from urllib.parse import unquote

import msgspec

from holdfast.errors import InvalidInput
from holdfast.store.backend import Durability
from holdfast.store.url import StoreUrl

Address = tuple[str, int]

DEFAULT_PORT = 6379
DEFAULT_SHARDS = 16
DAY = 86_400.0

_SCHEMES = {"redis": False, "valkey": False, "rediss": True, "valkeys": True}
_PARAMS = frozenset(
    ("prefix", "durability", "replicas", "cluster", "shards", "timeout", "ttl", "ca", "cert", "key", "verify")
)
_PREFIX = re.compile(r"[A-Za-z0-9._:/-]{1,100}")
_HOST = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]]+)?(?::(?P<port>\d{1,5}))?")
_DATABASE = re.compile(r"/?(\d{0,5})")


class RedisUrl(msgspec.Struct, frozen=True):
    """
    A store's URL, checked.

    ``durability`` is None where the URL does not say which, ``shards`` where it does not say how many.
    """

    shown: str
    secure: bool
    addresses: tuple[Address, ...]
    user: str | None
    password: str | None
    db: int
    prefix: str
    durability: Durability | None
    replicas: int
    cluster: bool
    shards: int | None
    timeout: float
    ttl: float | None
    tls: dict[str, Any]

    @classmethod
    def parse(cls, url: str) -> Self:
        """
        Take a URL apart.

        Raises:
            InvalidInput: It is not one that the store understands.
        """
        parts = StoreUrl.parse(url, params=_PARAMS)
        params, shown = parts.params, parts.shown
        login, _, hosts = parts.host.rpartition("@")
        user, _, password = login.partition(":")
        database = _DATABASE.fullmatch(parts.path)
        if database is None:
            raise InvalidInput(
                f"{shown}: the path is the number of a database, as in redis://localhost:6379/0"
            )
        durability: Any = params.get("durability")
        if durability not in (None, *get_args(Durability)):
            raise InvalidInput(f"{shown}: durability is memory, os, disk or replicated, not {durability!r}")
        prefix = params.get("prefix", "holdfast")
        if not _PREFIX.fullmatch(prefix):
            raise InvalidInput(f"{shown}: prefix is made of letters, digits and . _ : / -, not {prefix!r}")
        replicas = int(_number(shown, params, "replicas", 1 if durability == "replicated" else 0, least=0))
        if (replicas > 0) != (durability == "replicated"):
            raise InvalidInput(f"{shown}: replicas goes with durability=replicated, and the other way round")
        shards = int(_number(shown, params, "shards", 0, least=1)) or None
        ttl = _number(shown, params, "ttl", 0, least=0.0) * DAY
        return cls(
            shown=shown,
            secure=_SCHEMES[parts.scheme],
            addresses=tuple(_address(shown, host) for host in hosts.split(",")),
            user=unquote(user) or None,
            password=unquote(password) or None,
            db=int(database[1] or 0),
            prefix=prefix,
            durability=durability,
            replicas=replicas,
            cluster=_yes(shown, params, "cluster", False),
            shards=shards,
            timeout=_number(shown, params, "timeout", 10, least=0.01),
            ttl=ttl or None,
            tls=_tls(shown, params) if _SCHEMES[parts.scheme] else {},
        )


def _address(shown: str, host: str) -> Address:
    found = _HOST.fullmatch(host)
    if found is None:
        raise InvalidInput(f"{shown}: {host!r} is no host and port")
    return (found["host"] or "localhost").strip("[]"), int(found["port"] or DEFAULT_PORT)


def _number(shown: str, params: dict[str, str], name: str, default: float, *, least: float) -> float:
    if name not in params:
        return default
    try:
        value = float(params[name])
    except ValueError:
        value = float("nan")
    if not least <= value <= 1e6 or (type(least) is int and value != int(value)):
        raise InvalidInput(f"{shown}: {name} is a number from {least:g} up, not {params[name]!r}")
    return value


def _yes(shown: str, params: dict[str, str], name: str, default: bool) -> bool:
    value = params.get(name)
    if value not in (None, "true", "false"):
        raise InvalidInput(f"{shown}: {name} is true or false, not {value!r}")
    return default if value is None else value == "true"


def _tls(shown: str, params: dict[str, str]) -> dict[str, Any]:
    verify = _yes(shown, params, "verify", True)
    files = {"ssl_ca_certs": "ca", "ssl_certfile": "cert", "ssl_keyfile": "key"}
    given = {option: params[name] for option, name in files.items() if name in params}
    return {**given, "ssl_cert_reqs": "required" if verify else "none", "ssl_check_hostname": verify}
