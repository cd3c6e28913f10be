"""The ``holdfast`` command. Its own few dependencies come with ``holdfast[cli]``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, or say what is missing for it."""
    try:
        from holdfast.cli.app import app
    except ModuleNotFoundError as exc:
        if exc.name not in ("typer", "rich"):
            raise
        sys.exit("The holdfast command needs a few more packages: pip install 'holdfast[cli]'")
    app()
