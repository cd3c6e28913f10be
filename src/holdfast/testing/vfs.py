"""
A tap on the files of Python's ``sqlite3`` module: see, refuse or tear what SQLite asks of its disk.

The module uses the default VFS (SQLite's layer over the operating system) of whatever library it is
linked to. The tap registers a copy of that VFS as the default, with the few functions replaced that
change a file. Everything else goes to the original, so locks and shared memory work as always.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_OPEN_CREATE = 0x00000004

Proceed = Callable[[], None]
ProceedWrite = Callable[[int, bytes], None]


class Untappable(RuntimeError):
    """The SQLite library of this Python can't be reached, so nothing can be said of its files."""


class Refused(Exception):
    """A file operation that failed, or that a tap wants to fail, with SQLite's code for it."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"SQLite's file operation failed with code {code}")


class Tap:
    """
    What happens at each file operation; this one lets all of them through.

    ``proceed`` does the operation. A tap may look before or after it, or raise ``Refused`` instead.
    ``file`` is what ``opened`` gave for it. Called from whatever thread SQLite runs in.
    """

    def opened(self, path: Path, *, created: bool) -> Any:
        """A file was opened; what is returned stands for it from here on."""
        return path

    def write(self, file: Any, offset: int, data: bytes, proceed: ProceedWrite) -> None:
        """Bytes go to a file; ``proceed`` takes an offset and bytes, any number of times."""
        proceed(offset, data)

    def truncate(self, file: Any, size: int, proceed: Proceed) -> None:
        """A file gets another size."""
        proceed()

    def sync(self, file: Any, proceed: Proceed) -> None:
        """What was written to a file before is made durable."""
        proceed()

    def delete(self, path: Path, proceed: Proceed) -> None:
        """A file loses its name."""
        proceed()

    def sync_names(self, folder: Path, proceed: Proceed) -> None:
        """What was created or deleted in a folder before is made durable."""
        proceed()


@contextlib.contextmanager
def tapped(tap: Tap, folder: Path) -> Iterator[None]:
    """
    Put a tap on every file in ``folder`` that a ``sqlite3`` connection opens inside the block.

    One tap at a time in a process. Connections have to be closed before the block ends.

    Raises:
        Untappable: This Python's SQLite can't be reached; the message says why.
    """
    remove = install(tap, folder)
    try:
        yield
    finally:
        remove()


def install(tap: Tap, folder: Path) -> Callable[[], None]:
    """Put a tap on, as ``tapped`` does; the answer takes it off."""
    shim = _Shim(tap, folder.resolve())
    # SQLite keeps the addresses for as long as a connection lives, so nothing of it may be freed.
    _shims.append(shim)
    shim.install()
    return shim.remove


_shims: list[_Shim] = []

STATEMENT, COMMIT = "at a statement", "at a COMMIT"
WRITE, HALF, SYNC, SYNCED = "at a write", "in half of a write", "before a sync", "after a sync"
POINTS = (STATEMENT, COMMIT, WRITE, HALF, SYNC, SYNCED)
"""Where a process that uses SQLite can be made to die inside a commit."""


def install_points(reach: Callable[[str], None], url: str) -> None:
    """Call ``reach`` with one of ``POINTS`` whenever this process comes by, for ``sqlite:///`` URLs."""
    connect = sqlite3.connect

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.set_trace_callback(lambda statement: reach(COMMIT if statement == "COMMIT" else STATEMENT))
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    install(_Reaching(reach), Path(unquote(urlsplit(url).path)[1:]).parent)


class _Reaching(Tap):
    def __init__(self, reach: Callable[[str], None]) -> None:
        self._reach = reach

    def write(self, file: Any, offset: int, data: bytes, proceed: ProceedWrite) -> None:
        self._reach(WRITE)
        half = len(data) // 2
        proceed(offset, data[:half])
        self._reach(HALF)
        proceed(offset + half, data[half:])

    def sync(self, file: Any, proceed: Proceed) -> None:
        self._reach(SYNC)
        proceed()
        self._reach(SYNCED)


class _Methods(ctypes.Structure):
    """``sqlite3_io_methods``, version 3."""

    _fields_ = [
        ("version", ctypes.c_int),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("close", "read", "write", "truncate", "sync", "size", "lock", "unlock", "check_lock"),
                *("control", "sector", "traits", "shm_map", "shm_lock", "shm_barrier", "shm_unmap"),
                *("fetch", "unfetch"),
            )
        ),
    ]


class _Vfs(ctypes.Structure):
    """``sqlite3_vfs``, version 3."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("max_path", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("app", ctypes.c_void_p),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("open", "delete", "access", "full_path", "dl_open", "dl_error", "dl_sym", "dl_close"),
                *("random", "sleep", "time", "last_error", "time_int64"),
                *("set_system_call", "get_system_call", "next_system_call"),
            )
        ),
    ]


class _File(ctypes.Structure):
    """``sqlite3_file``: what its VFS keeps behind the first field is not ours."""

    _fields_ = [("methods", ctypes.POINTER(_Methods))]


_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_Close = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_Write = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_OpenDirectory = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_GetSystemCall = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_SetSystemCall = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class _Shim:
    def __init__(self, tap: Tap, folder: Path) -> None:
        self._tap = tap
        self._folder = folder
        self._library = _library()
        self._base = ctypes.cast(self._library.sqlite3_vfs_find(None), ctypes.POINTER(_Vfs))
        if os.name != "posix" or not self._base or self._base.contents.version < 3:
            raise Untappable(
                "SQLite's default VFS is not the one for Unix, which is the only one that can be tapped"
            )
        self._files: dict[int, Any] = {}
        self._tables: dict[int, _Methods] = {}
        self._callbacks: list[Any] = []
        self._vfs = _Vfs()
        ctypes.memmove(ctypes.byref(self._vfs), self._base, ctypes.sizeof(_Vfs))
        self._vfs.name = b"holdfast-tap"
        self._vfs.next = None
        self._base_open = _Open(self._base.contents.open)
        self._base_delete = _Delete(self._base.contents.delete)
        self._vfs.open = self._callback(_Open, self._open)
        self._vfs.delete = self._callback(_Delete, self._delete)
        self._get_call = _GetSystemCall(self._base.contents.get_system_call)
        self._set_call = _SetSystemCall(self._base.contents.set_system_call)
        self._open_directory = _OpenDirectory(self._get_call(self._base, b"openDirectory"))
        self._fsync = os.fsync
        self._failure: BaseException | None = None

    def install(self) -> None:
        self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)
        self._set_call(self._base, b"openDirectory", self._callback(_OpenDirectory, self._sync_names_of))
        # A store makes the names of its files durable itself, with the only means Python has.
        os.fsync = self._fsync_names

    def remove(self) -> None:
        os.fsync = self._fsync
        self._set_call(self._base, b"openDirectory", None)
        self._library.sqlite3_vfs_unregister(ctypes.byref(self._vfs))
        self._library.sqlite3_vfs_register(self._base, 1)
        if self._failure is not None:
            raise self._failure

    def _callback(self, kind: Any, function: Callable[..., int]) -> ctypes.c_void_p:
        def guarded(*args: Any) -> int:
            try:
                return function(*args)
            except Refused as exc:
                return exc.code
            except BaseException as exc:
                # ctypes would print it and report success for an operation that did not happen.
                self._failure = self._failure or exc
                return sqlite3.SQLITE_IOERR

        callback = kind(guarded)
        self._callbacks.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p)

    def _open(self, _vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        path = Path(os.fsdecode(ctypes.string_at(name))) if name else None
        existed = path is not None and path.exists()
        code: int = self._base_open(ctypes.cast(self._base, ctypes.c_void_p), name, file, flags, out)
        if code == 0 and path is not None and path.parent == self._folder:
            created = bool(flags & _OPEN_CREATE) and not existed
            self._files[file] = self._tap.opened(path, created=created)
            head = ctypes.cast(file, ctypes.POINTER(_File)).contents
            head.methods = ctypes.pointer(self._methods(head.methods))
        return code

    def _methods(self, original: Any) -> _Methods:
        address = ctypes.addressof(original.contents)
        if address in self._tables:
            return self._tables[address]
        base = original.contents
        close, write, truncate, sync = (
            _Close(base.close),
            _Write(base.write),
            _Truncate(base.truncate),
            _Sync(base.sync),
        )

        def on_close(file: int) -> int:
            self._files.pop(file, None)
            code: int = close(file)
            return code

        def on_write(file: int, buffer: int, size: int, offset: int) -> int:
            def proceed(at: int, data: bytes) -> None:
                _check(write(file, data, len(data), at))

            self._tap.write(self._files[file], offset, ctypes.string_at(buffer, size), proceed)
            return 0

        def on_truncate(file: int, size: int) -> int:
            self._tap.truncate(self._files[file], size, lambda: _check(truncate(file, size)))
            return 0

        def on_sync(file: int, flags: int) -> int:
            self._tap.sync(self._files[file], lambda: _check(sync(file, flags)))
            return 0

        table = self._tables[address] = _Methods()
        ctypes.memmove(ctypes.byref(table), original, ctypes.sizeof(_Methods))
        table.close = self._callback(_Close, on_close)
        table.write = self._callback(_Write, on_write)
        table.truncate = self._callback(_Truncate, on_truncate)
        table.sync = self._callback(_Sync, on_sync)
        return table

    def _delete(self, _vfs: int, name: int, sync_names: int) -> int:
        def proceed() -> None:
            _check(
                self._base_delete(
                    ctypes.cast(self._base, ctypes.c_void_p), name, sync_names if foreign else 0
                )
            )

        path = Path(os.fsdecode(ctypes.string_at(name)))
        foreign = path.parent != self._folder
        if foreign:
            proceed()
            return 0
        # Two steps here, so that a tap sees the sync after what it makes durable.
        self._tap.delete(path, proceed)
        if sync_names:
            self._tap.sync_names(self._folder, self._fsync_folder)
        return 0

    def _fsync_folder(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            self._fsync(handle)
        finally:
            os.close(handle)

    def _sync_names_of(self, name: int, out: int) -> int:
        """SQLite opens a directory for one reason: to sync it, at once."""
        code: int = self._open_directory(name, out)
        if code == 0 and Path(os.fsdecode(ctypes.string_at(name))).parent == self._folder:
            self._tap.sync_names(self._folder, lambda: None)
        return code

    def _fsync_names(self, fd: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        if os.path.samestat(os.fstat(number), self._folder.stat()):
            self._tap.sync_names(self._folder, lambda: self._fsync(fd))
        else:
            self._fsync(fd)


def _check(code: int) -> None:
    if code:
        raise Refused(code)


def _library() -> Any:
    """The library that the ``sqlite3`` module really uses, not another one of the same name."""
    import _sqlite3

    where = getattr(_sqlite3, "__file__", None)
    library = ctypes.CDLL(where)
    try:
        library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
        library.sqlite3_vfs_find.restype = ctypes.c_void_p
        library.sqlite3_vfs_register.argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.sqlite3_vfs_unregister.argtypes = [ctypes.c_void_p]
        library.sqlite3_sourceid.restype = ctypes.c_char_p
    except AttributeError as exc:
        raise Untappable(
            f"the sqlite3 module ({where or 'built into the interpreter'}) hides the SQLite library inside it; "
            "run this with a Python that is linked to the system's libsqlite3"
        ) from exc
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        (used,) = connection.execute("SELECT sqlite_source_id()").fetchone()
    found = library.sqlite3_sourceid().decode()
    if found != used:
        raise Untappable(f"found another SQLite library ({found}) than the one that sqlite3 uses ({used})")
    return library
