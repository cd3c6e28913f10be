"""The Lua scripts, by name, each with the parts that it needs in front of it."""

from __future__ import annotations

from hashlib import sha1
from importlib.resources import files

import msgspec


class Script(msgspec.Struct, frozen=True):
    """A script's text, the name that the server keeps it under, and whether it writes."""

    text: bytes
    sha: bytes
    writes: bool


def _load(*parts: str, writes: bool = False) -> Script:
    folder = files(__package__).joinpath("lua")
    text = b"\n".join(folder.joinpath(f"{part}.lua").read_bytes() for part in parts)
    return Script(text, sha1(text).hexdigest().encode(), writes)


META = _load("meta", writes=True)
APPEND = _load("append", writes=True)
COMMIT = _load("lib", "copy", "commit", writes=True)
EVENTS = _load("lib", "page", "events")
LOAD = _load("lib", "page", "load")
CALLS = _load("calls")
RECORDS = _load("records")
INVENTORY = _load("inventory")
HEADERS = _load("headers")
FIND = _load("find")
WAITING = _load("lib", "waiting")
DUE = _load("lib", "due")
READY = _load("lib", "ready")
ACQUIRE = _load("lib", "acquire", writes=True)
RENEW = _load("lib", "renew", writes=True)
RELEASE = _load("lib", "release", writes=True)
HIDE = _load("lib", "hide", writes=True)
LEFT = _load("lib", "left")
REMOVE = _load("remove", writes=True)
FORK = _load("lib", "fork", writes=True)
SLICE = _load("lib", "copy", "page", "slice", writes=True)
