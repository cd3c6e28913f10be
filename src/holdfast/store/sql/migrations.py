"""Versions of a schema: which scripts there are, and which of them a database still needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from holdfast.errors import SchemaOutdated, SchemaTooNew

_NUMBERED = re.compile(r"(\d{4})_")


def version_of(applied: Collection[str]) -> int:
    """The version that a database has after the scripts of these names; 0 if there are none."""
    numbers = (int(match.group(1)) for name in applied if (match := _NUMBERED.match(name)))
    return max(numbers, default=0)


def missing(scripts: Mapping[str, str], applied: Collection[str], url: str) -> dict[str, str]:
    """
    The scripts that a database still needs, oldest first.

    Raises:
        SchemaTooNew: It had scripts that this version does not know.
    """
    found, wanted = version_of(applied), version_of(scripts)
    if found > wanted:
        raise SchemaTooNew(url, found=found, wanted=wanted)
    return {name: script for name, script in scripts.items() if name not in applied}


def check_current(scripts: Mapping[str, str], applied: Collection[str], url: str) -> None:
    """
    Refuse a database that is not of this version.

    Raises:
        SchemaOutdated: It still needs a script.
        SchemaTooNew: It had scripts that this version does not know.
    """
    if missing(scripts, applied, url):
        raise SchemaOutdated(url, found=version_of(applied), wanted=version_of(scripts))
