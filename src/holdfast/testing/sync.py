"""
The proof of sync: what was acknowledged is still there after the power went.

A killed process loses nothing that it handed to the operating system, so SQLite without a single
sync passes any number of SIGKILLs. Here every file operation of a store is recorded, with the
moments at which it acknowledged a commit. From the record, the files are made as a disk could have
them if the power went at some operation: with what was synced, and with none, some or all of what
was not, torn within a write too. The store is opened on them and looked through.

What is proved: at each acknowledgement, the operating system had been asked to make the commit
durable, and had said that it is: contents by a sync of the file, names by a sync of the folder. And
from whatever such a crash leaves, the store comes back with nothing half there. What is not: that
the disk obeys a sync, and that the kernel does. Recording works for stores that write through
Python's ``sqlite3`` module (see ``holdfast.testing.vfs``); a store with files of its own reports to
``Disk`` itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.store import Store
from holdfast.testing.crash_child import Plan, plans
from holdfast.testing.ledger import Answer, examine
from holdfast.testing.vfs import Proceed, ProceedWrite, Tap, Untappable, tapped

SECTOR = 512
OWNER = "power"
_CONVERSATIONS = 5

Survives = Literal["nothing", "some", "everything"]


class Made(msgspec.Struct, frozen=True):
    """A file got a name."""

    name: str
    file: int


class Removed(msgspec.Struct, frozen=True):
    """A file lost its name."""

    name: str


class Wrote(msgspec.Struct, frozen=True):
    """Bytes went to a file."""

    file: int
    offset: int
    data: bytes


class Resized(msgspec.Struct, frozen=True):
    """A file was cut or extended."""

    file: int
    size: int


class Synced(msgspec.Struct, frozen=True):
    """What a file got before the operation ``until`` is durable."""

    file: int
    until: int


class NamesSynced(msgspec.Struct, frozen=True):
    """The names that were made or removed before the operation ``until`` are durable."""

    until: int


class Answered(msgspec.Struct, frozen=True):
    """The store acknowledged a commit; from here on it must not get lost."""

    marker: str


Step = Made | Removed | Wrote | Resized | Synced | NamesSynced | Answered


class Disk(Tap):
    """
    A record of what was asked of a disk, and what a power cut would leave of it.

    ``folder`` may have files in it when the recording begins: they count as durable. Files in
    folders below it are not recorded.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.steps: list[Step] = []
        self._before = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        self._files: dict[str, int] = {name: -number for number, name in enumerate(self._before, 1)}
        self._before_files = dict(self._files)
        self._numbers = itertools.count(1)

    def answered(self, marker: str) -> None:
        """Note that the store acknowledged this commit."""
        self.steps.append(Answered(marker))

    def opened(self, path: Path, *, created: bool) -> int:
        """Tell of a file that was opened; the number stands for it from here on."""
        if created or path.name not in self._files:
            self._files[path.name] = number = next(self._numbers)
            self.steps.append(Made(path.name, number))
        return self._files[path.name]

    def write(self, file: int, offset: int, data: bytes, proceed: ProceedWrite) -> None:
        """Tell of bytes that are written."""
        proceed(offset, data)
        self.steps.append(Wrote(file, offset, data))

    def truncate(self, file: int, size: int, proceed: Proceed) -> None:
        """Tell of a new size."""
        proceed()
        self.steps.append(Resized(file, size))

    def sync(self, file: int, proceed: Proceed) -> None:
        """Tell of a sync. What is written while it runs may not be in it."""
        until = len(self.steps)
        proceed()
        self.steps.append(Synced(file, until))

    def delete(self, path: Path, proceed: Proceed) -> None:
        """Tell of a name that is removed."""
        proceed()
        self._files.pop(path.name, None)
        self.steps.append(Removed(path.name))

    def sync_names(self, folder: Path, proceed: Proceed) -> None:
        """Tell of a sync of the folder."""
        until = len(self.steps)
        proceed()
        self.steps.append(NamesSynced(until))

    def cut(self, at: int, into: Path, keep: Keep) -> None:
        """Make the files in ``into`` as they could be if the power went before the step ``at``."""
        contents = {file: bytearray(self._before[name]) for name, file in self._before_files.items()}
        names = dict(self._before_files)
        writes: dict[int, list[tuple[int, Wrote | Resized]]] = {}
        renames: list[tuple[int, Made | Removed]] = []
        for index, step in enumerate(self.steps[:at]):
            match step:
                case Made(_, file):
                    contents[file] = bytearray()
                    renames.append((index, step))
                case Removed():
                    renames.append((index, step))
                case Wrote(file) | Resized(file):
                    writes.setdefault(file, []).append((index, step))
                case Synced(file, until):
                    pending = writes.get(file, [])
                    for _, write in itertools.takewhile(lambda pair: pair[0] < until, pending):
                        _apply(contents[file], write)
                    writes[file] = [pair for pair in pending if pair[0] >= until]
                case NamesSynced(until):
                    for _, change in itertools.takewhile(lambda pair: pair[0] < until, renames):
                        _rename(names, change)
                    renames = [pair for pair in renames if pair[0] >= until]
        for _, change in keep.names(renames):
            _rename(names, change)
        for file, pending in writes.items():
            for _, write in pending:
                for part in keep.parts(write):
                    _apply(contents[file], part)
        for name, file in names.items():
            (into / name).write_bytes(contents[file])


class Keep:
    """
    What survives of the operations that were never synced: ``nothing``, ``everything`` or ``some``.

    Of names a first part survives, as file systems keep their order; of writes any, in parts of a
    sector.
    """

    def __init__(self, what: Survives, rng: random.Random | None = None) -> None:
        self.what = what
        self._rng = rng or random.Random(0)

    def names(self, changes: list[tuple[int, Made | Removed]]) -> list[tuple[int, Made | Removed]]:
        """The changes of names that survive."""
        if self.what == "some":
            return changes[: self._rng.randint(0, len(changes))]
        return changes if self.what == "everything" else []

    def parts(self, write: Wrote | Resized) -> Iterator[Wrote | Resized]:
        """The parts of a write that survive."""
        if self.what == "everything":
            yield write
        elif self.what == "some" and isinstance(write, Resized):
            if self._rng.random() < 0.5:
                yield write
        elif self.what == "some" and isinstance(write, Wrote):
            fate = self._rng.random()
            for start in range(0, len(write.data), SECTOR):
                if fate < 0.4 or (fate < 0.7 and self._rng.random() < 0.5):
                    yield Wrote(write.file, write.offset + start, write.data[start : start + SECTOR])


def _apply(content: bytearray, step: Wrote | Resized) -> None:
    match step:
        case Wrote(_, offset, data):
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        case Resized(_, size):
            content.extend(bytes(max(0, size - len(content))))
            del content[size:]


def _rename(names: dict[str, int], step: Made | Removed) -> None:
    match step:
        case Made(name, file):
            names[name] = file
        case Removed(name):
            names.pop(name, None)


class SyncReport(msgspec.Struct):
    """
    What the cuts of a proof left behind.

    ``acknowledged`` counts, over all cuts, what had to be there; ``lost`` what was not, ``half``
    what was there in part; ``refused`` are cuts after which the store could not be used at all.
    """

    cuts: int = 0
    acknowledged: int = 0
    lost: int = 0
    half: int = 0
    refused: int = 0
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there was something to lose, and nothing was."""
        return self.acknowledged > 0 and not self.problems

    def __add__(self, other: SyncReport) -> SyncReport:
        return SyncReport(*(getattr(self, f) + getattr(other, f) for f in self.__struct_fields__))


class PowerCut:
    """
    Records a store at work, then cuts its power as often as wanted.

    ``make`` gives the store that has its files in a folder::

        power = PowerCut(lambda folder: connect(f"sqlite:///{folder}/agents.db"), tmp_path)
        with power.recording():
            async with power.store() as store:
                await power.commit(store)
                await power.commit(store, together=64)
        report = await power.prove()
        assert report.ok, report.problems
    """

    def __init__(self, make: Callable[[Path], Store], folder: Path, *, seed: int = 0) -> None:
        self.live = folder / "live"
        self.live.mkdir(parents=True)
        self.disk = Disk(self.live)
        self._make = make
        self._folder = folder
        self._rng = random.Random(seed)
        self._conversations = tuple(f"c-{n}" for n in range(_CONVERSATIONS))
        self._streams: list[Iterator[Plan]] = []
        self._answers: dict[str, Answer] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """
        Record what the stores inside the block do to ``live``.

        Raises:
            Untappable: This Python's SQLite can't be reached; nothing can be proved then.
        """
        with tapped(self.disk, self.live):
            yield

    def store(self) -> Store:
        """The store in ``live``, not open yet."""
        return self._make(self.live)

    async def commit(self, store: Store, *, together: int = 1) -> None:
        """Make that many commits at once, and note when each of them is acknowledged."""
        while len(self._streams) < together:
            self._streams.append(plans(f"s{len(self._streams)}", self._conversations))

        async def one(plan: Plan) -> None:
            commit = await plan.commit(store, OWNER)
            self.disk.answered(plan.marker)
            self._answers[plan.marker] = Answer(plan, commit)

        await asyncio.gather(*(one(next(stream)) for stream in self._streams[:together]))

    async def prove(self, *, cuts: int = 60) -> SyncReport:
        """
        Cut the power after acknowledgements, where nothing survives that was not synced, and at any
        step, where some of it survives.
        """
        report = await self.cut("nothing", self.after_answers(cuts // 2))
        return report + await self.cut("some", self.any_steps(cuts - cuts // 2))

    def after_answers(self, count: int) -> list[int]:
        """That many moments right after the store acknowledged something, the first one among them."""
        answers = [index + 1 for index, step in enumerate(self.disk.steps) if isinstance(step, Answered)]
        return sorted({*answers[:1], *answers[-1:], *self._sample(answers, count)})

    def any_steps(self, count: int, *, until: int | None = None) -> list[int]:
        """That many moments of the recording, or of its beginning."""
        return sorted(self._sample(range((until or len(self.disk.steps)) + 1), count))

    async def cut(self, survives: Survives, moments: Iterable[int]) -> SyncReport:
        """Cut the power at each of these moments, and look through what is left."""
        if not any(isinstance(step, Wrote) for step in self.disk.steps):
            raise Untappable("not one write was seen; does the store use sqlite3 inside `recording()`?")
        report = SyncReport()
        for at in moments:
            with tempfile.TemporaryDirectory(dir=self._folder, prefix="cut-") as name:
                self.disk.cut(at, Path(name), Keep(survives, self._rng))
                report += await self._examine(Path(name), at, survives)
        return report

    async def _examine(self, folder: Path, at: int, survives: str) -> SyncReport:
        done = {step.marker for step in self.disk.steps[:at] if isinstance(step, Answered)}
        answers = {marker: self._answers[marker] for marker in done}
        report = SyncReport(cuts=1, acknowledged=len(answers))
        where = f"power cut at step {at} of {len(self.disk.steps)}, {survives} survives that was not synced"
        try:
            async with self._make(folder) as store:
                findings = await examine(store, OWNER, self._conversations, answers)
        except Exception as exc:
            report.refused = 1
            report.problems.append(f"{where}: {type(exc).__name__}: {exc}")
            return report
        report.lost, report.half = len(findings.lost), len(findings.half)
        report.problems.extend(f"{where}: {problem}" for problem in findings.problems)
        return report

    def _sample(self, moments: Sequence[int], count: int) -> list[int]:
        return self._rng.sample(moments, min(count, len(moments)))
