"""Commands: each parses, calls the library, prints."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

import holdfast
from holdfast import copying
from holdfast.copying import Copied, foreign, jsonl
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.ids import ConversationKey
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


@app.command()
def export(
    url: StoreArgument,
    owner: Annotated[str, typer.Argument(help="Whose conversations.", show_default=False)],
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Which; all if none is given.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="The file to write; standard output if not given.", show_default=False)
    ] = None,
) -> None:
    """
    Write conversations to a file, one JSON object a line, lossless.

    holdfast export sqlite:///agents.db user-1 --to user-1.jsonl
    """
    with _clear_errors():
        if to is not None and to.exists():
            raise InvalidInput(f"{to} is there already; nothing was written")
        with to.open("wb") if to is not None else nullcontext(sys.stdout.buffer) as file:
            conversations, events = asyncio.run(_export(url, owner, ids, file))
    _err.print(f"Exported {conversations:,} conversation(s) with {events:,} event(s).")


async def _export(url: str, owner: str, ids: list[str] | None, file: IO[bytes]) -> tuple[int, int]:
    async with connect(url) as store:
        if ids:
            keys = [ConversationKey(owner, id) for id in ids]
        else:
            keys = [header.key async for header in copying.conversations(store, [owner])]
        with _bar("{task.completed:,.0f} of {task.total:,.0f} conversations") as bar:
            events = 0
            for key in bar.track(keys, description="exporting"):
                events += await jsonl.export(store, key, file)
        return len(keys), events


class Format(StrEnum):
    HOLDFAST = "holdfast"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    CLAUDE_CODE = "claude-code"


@app.command("import")
def import_(
    url: StoreArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The files to read.", show_default=False)
    ],
    format: Annotated[Format, typer.Option(help="What wrote them.")] = Format.HOLDFAST,
    owner: Annotated[
        str | None,
        typer.Option(help="Whose they become; exports remember whose they were.", show_default=False),
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="The conversation's id, of formats that have none.", show_default=False)
    ] = None,
) -> None:
    """
    Read conversations from files: exports, or what other programs kept.

    A line that can't be read is named, and stops nothing else; the exit code is then 1. What is there already
    is left as it is, so a file can be imported again.

    holdfast import sqlite:///agents.db user-1.jsonl

    holdfast import sqlite:///agents.db session.jsonl --format claude-code --owner user-1
    """
    with _clear_errors():
        if format != Format.HOLDFAST and owner is None:
            raise InvalidInput(f"a file of {format} does not say whose it is: give --owner")
        if format == Format.HOLDFAST and id is not None:
            raise InvalidInput("an export knows the ids of its conversations; --id is for other formats")
        results = asyncio.run(_import(url, files, format, owner, id))
    for file, imported in zip(files, results, strict=True):
        for problem in imported.problems:
            _err.print("[red]not imported:[/red]", end=" ")
            _err.print(f"{file}:{problem.line}: {problem.reason}", markup=False)
    there = sum(imported.unchanged for imported in results)
    _out.print(
        f"Imported {sum(imported.conversations for imported in results):,} conversation(s) with "
        f"{sum(imported.events for imported in results):,} event(s)."
        + (f" {there:,} were there already." if there else "")
    )
    if any(imported.problems for imported in results):
        raise typer.Exit(1)


async def _import(
    url: str, files: list[Path], format: Format, owner: str | None, id: str | None
) -> list[jsonl.Imported]:
    results = []
    async with connect(url) as store:
        with _bar("{task.percentage:.0f} %") as bar:
            for file in files:
                task = bar.add_task(file.name, total=None)

                def show(done: int, total: int, task: TaskID = task) -> None:
                    bar.update(task, completed=done, total=total)

                if format == Format.HOLDFAST:
                    results.append(await jsonl.load(store, file, owner=owner, on_progress=show))
                else:
                    results.append(
                        await foreign.load_foreign(
                            store,
                            file,
                            cast(foreign.Format, format.value),
                            owner=owner or "",
                            id=id,
                            on_progress=show,
                        )
                    )
    return results


def _bar(counted: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(counted),
        TimeRemainingColumn(),
        console=_err,
        disable=not _err.is_terminal,
    )


async def _copy(source: str, target: str, owners: list[str] | None, resume: bool, at_once: int) -> Copied:
    async with connect(source) as src, connect(target) as dst:
        with _bar("{task.completed:,.0f} of {task.total:,.0f} events") as bar:
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
