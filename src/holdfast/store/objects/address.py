"""What a URL stands for: a bucket at a service, or a directory."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from holdfast.errors import InvalidInput
from holdfast.store.backend import Durability
from holdfast.store.objects.bucket import Bucket
from holdfast.store.objects.local import LocalBucket
from holdfast.store.url import StoreUrl

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PARAMETERS = frozenset(("endpoint", "region", "allow_http", "timeout", "poll", "durability", "scrub"))
TIMEOUT = 30.0
POLL = 1.0
_CONNECT_TIMEOUT = timedelta(seconds=5)
_RETRY = {
    "max_retries": 5,
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=2), "base": 2},
}


class Address(msgspec.Struct, frozen=True):
    """
    A store's URL, checked.

    ``service`` is who stores the objects. ``poll`` is how often watched conversations are looked at,
    in seconds. ``scrub`` says whether what is removed is gone: in a directory it is; a bucket may keep
    versions or deleted objects for a while, which can't be seen from here. ``connect`` makes the bucket.
    """

    service: str
    durability: Durability
    poll: float
    scrub: bool
    connect: Callable[[], Bucket]

    @classmethod
    def parse(cls, url: str) -> Address:
        """
        Take a URL apart.

        Raises:
            InvalidInput: It can't stand for a store.
        """
        parsed = StoreUrl.parse(url, params=PARAMETERS)
        poll = _seconds(parsed, "poll", POLL)
        asked = parsed.params.get("durability")
        if parsed.scheme == "file":
            if asked not in (None, "disk", "os"):
                raise InvalidInput(f"{parsed.shown}: durability is disk or os, not {asked!r}")
            folder = _directory(parsed)
            sync = asked != "os"
            durability: Durability = "disk" if sync else "os"
            return cls(
                f"file {folder}", durability, poll, True, lambda: LocalBucket(folder, parsed.shown, sync=sync)
            )
        if asked not in (None, "replicated"):
            raise InvalidInput(f"{parsed.shown}: durability is replicated, not {asked!r}")
        service = f"{parsed.scheme} {parsed.host} {parsed.params.get('endpoint')}"
        return cls(service, "replicated", poll, _yes(parsed, "scrub"), _service(parsed))


def _directory(parsed: StoreUrl) -> Path:
    if extra := sorted(parsed.params.keys() & {"endpoint", "region", "allow_http", "timeout", "scrub"}):
        raise InvalidInput(f"{parsed.shown}: a directory has no {extra[0]}")
    if parsed.host or len(parsed.path) < 2:
        raise InvalidInput(f"{parsed.shown} names no directory; write file:///var/lib/agents")
    return Path(parsed.path)


def _service(parsed: StoreUrl) -> Callable[[], Bucket]:
    prefix = parsed.path.strip("/")
    if not parsed.host or "@" in parsed.host:
        raise InvalidInput(
            f"{parsed.shown} must name a bucket, and nothing else before the path; "
            "credentials come from the environment"
        )
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise InvalidInput(f"{parsed.shown}: a prefix has no empty parts, no . and no ..")
    endpoint = parsed.params.get("endpoint")
    if "@" in urlsplit(endpoint or "").netloc:
        raise InvalidInput("an endpoint has no user and no password; credentials come from the environment")
    patience = _seconds(parsed, "timeout", TIMEOUT)
    timeout = timedelta(seconds=patience)
    options: dict[str, Any] = {
        "client_options": {
            "allow_http": _allow_http(parsed, endpoint),
            "timeout": timeout,
            "connect_timeout": min(timeout, _CONNECT_TIMEOUT),
        },
        "retry_config": {**_RETRY, "retry_timeout": timeout},
    }
    if endpoint:
        options["endpoint"] = endpoint
    if region := parsed.params.get("region"):
        if parsed.scheme != "s3":
            raise InvalidInput(f"{parsed.shown}: only s3:// has a region")
        options["region"] = region
    services: dict[str, Callable[..., ObjectStore]] = {"s3": S3Store, "gs": _google, "az": AzureStore}
    make = services[parsed.scheme]

    def connect() -> Bucket:
        try:
            made = make(parsed.host, prefix=prefix or None, **options)
        except (BaseError, ValueError) as exc:
            what = str(exc).partition("\n\n")[0]
            raise InvalidInput(f"{parsed.shown} can't be used as it is: {what}") from exc
        return Bucket(made, parsed.shown, patience=patience)

    return connect


def _google(bucket: str, *, endpoint: str | None = None, **options: Any) -> GCSStore:
    if endpoint:
        options["base_url"] = endpoint
    return GCSStore(bucket, **options)


def _allow_http(parsed: StoreUrl, endpoint: str | None) -> bool:
    """Whether a connection without TLS is fine: to this machine always, elsewhere if the URL says so."""
    allowed = _yes(parsed, "allow_http")
    where = urlsplit(endpoint or "")
    if where.scheme != "http" or allowed:
        return allowed
    host = where.hostname or ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    if not here:
        raise InvalidInput(
            f"{parsed.shown}: the endpoint has no TLS; use https, or say allow_http=true if nobody can listen"
        )
    return True


def _yes(parsed: StoreUrl, name: str) -> bool:
    given = parsed.params.get(name, "false")
    if given not in ("true", "false"):
        raise InvalidInput(f"{parsed.shown}: {name} is true or false, not {given!r}")
    return given == "true"


def _seconds(parsed: StoreUrl, name: str, default: float) -> float:
    given = parsed.params.get(name)
    if given is None:
        return default
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise InvalidInput(f"{parsed.shown}: {name} is a number of seconds above 0, not {given!r}")
    return seconds
