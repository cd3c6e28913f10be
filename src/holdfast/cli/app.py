"""Commands: each parses, calls the library, prints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

import holdfast
from holdfast.errors import HoldfastError
from holdfast.store import connect

app = typer.Typer(
    help="Durable conversations for AI agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_out = Console(soft_wrap=True, highlight=False)
_err = Console(stderr=True, soft_wrap=True, highlight=False)

StoreArgument = Annotated[
    str, typer.Argument(metavar="URL", help="The store, such as sqlite:///agents.db", show_default=False)
]


def _version(wanted: bool) -> None:
    if wanted:
        _out.print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Durable conversations for AI agents."""


@app.command()
def migrate(
    url: StoreArgument,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if the store needs migrations.")
    ] = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Change nothing; print the SQL that a migration would run.")
    ] = False,
) -> None:
    """
    Bring a store's schema up to date.

    Safe to run from many processes at once, and when there is nothing to do. A new SQLite file needs
    no migration: it is made when it is first opened.
    """
    with _clear_errors():
        store = connect(url)
        pending = asyncio.run(store.pending_migrations())
        if sql:
            _out.print("\n".join(pending) if pending else "-- The schema is current.", markup=False)
        elif check:
            _out.print(
                f"{len(pending)} migration(s) pending: run `holdfast migrate {url}`."
                if pending
                else "The schema is current."
            )
            raise typer.Exit(1 if pending else 0)
        elif pending:
            asyncio.run(store.migrate())
            _out.print(f"Applied {len(pending)} migration(s). The schema is current.")
        else:
            _out.print("Nothing to do: the schema is current.")


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Turn an error of ours into one clear line and exit code 2."""
    try:
        yield
    except HoldfastError as exc:
        _err.print("[red]error:[/red]", end=" ")
        _err.print(str(exc), markup=False)
        raise typer.Exit(2) from exc
