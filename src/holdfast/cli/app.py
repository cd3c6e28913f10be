"""Commands: each parses, calls the library, prints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import holdfast
from holdfast import copying
from holdfast.copying import Copied
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


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The store to copy from.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="DST", help="The store to copy to.", show_default=False)],
    owner: Annotated[
        list[str] | None,
        typer.Option(help="Copy this owner's conversations only; may be given again.", show_default=False),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a copy that was interrupted; what is there stays."),
    ] = False,
    at_once: Annotated[
        int, typer.Option(min=1, help="How many conversations are copied at the same time.")
    ] = 32,
) -> None:
    """
    Copy conversations to another store, and verify them.

    Each is read back and compared by hash with what was sent. Stop it whenever you like, and go on with
    --resume. Exits with 1 if a conversation could not be copied; each is named with the reason.
    Copy while nobody writes. Leases and the tokens of commits are not copied.

    holdfast copy sqlite:///agents.db postgresql://localhost/agents
    """
    with _clear_errors():
        copied = asyncio.run(_copy(source, target, owner, resume, at_once))
    for problem in copied.problems:
        _err.print("[red]not copied:[/red]", end=" ")
        _err.print(problem.reason, markup=False)
    there = f" {copied.unchanged:,} were there already." if resume else ""
    _out.print(
        f"Copied and verified {copied.conversations:,} conversation(s) with {copied.events:,} event(s).{there}"
    )
    if copied.problems:
        raise typer.Exit(1)


async def _copy(source: str, target: str, owners: list[str] | None, resume: bool, at_once: int) -> Copied:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} events"),
        TimeRemainingColumn(),
        console=_err,
        disable=not _err.is_terminal,
    )
    async with connect(source) as src, connect(target) as dst:
        with bar:
            task = bar.add_task("counting conversations", total=None)

            def show(progress: copying.Progress) -> None:
                bar.update(
                    task,
                    description=f"{progress.conversations:,} of {progress.all_conversations:,} conversations",
                    completed=progress.events,
                    total=progress.all_events,
                )

            return await copying.copy(
                src, dst, owners=owners, resume=resume, at_once=at_once, on_progress=show
            )


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Turn an error of ours into one clear line and exit code 2."""
    try:
        yield
    except HoldfastError as exc:
        _err.print("[red]error:[/red]", end=" ")
        _err.print(str(exc), markup=False)
        raise typer.Exit(2) from exc
