"""A server process of our own: on a free loopback port, in a directory of its own, gone at exit."""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

READY_WITHIN = 60.0

_given: set[int] = set()


class Server(ABC):
    """
    One server. ``durable`` keeps its syncs on, for tests that kill it.

    ``kill`` is SIGKILL; ``start`` after it brings the server back with the same data and port.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        # Short, because the path of a Unix socket has 107 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix=f"hf-{type(self).__name__.lower()}-", dir="/tmp"))
        [self.port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    @property
    @abstractmethod
    def url(self) -> str:
        """How holdfast connects to it."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _ready(self) -> None:
        """Raise while the server does not answer yet."""

    def _prepare(self) -> None:  # noqa: B027
        """Make what the server needs before its first start; most need nothing."""

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder)}

    def start(self) -> Server:
        """Start the server, or start it again, and wait until it answers."""
        if self._process is None:
            self._prepare()
        with open(self.folder / "server.log", "ab") as log:
            # A session of its own: Ctrl-C must not stop it before the tests are done with it.
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,
                **self._user,
            )
        self._wait()
        return self

    def kill(self) -> None:
        """End the server as a crash would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def pause(self) -> None:
        """Stop the server in its tracks: connections stay open and nothing answers."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End the server and remove its directory."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _user(self) -> dict[str, Any]:
        """Give up root where the server refuses to run as root."""
        return {}

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_WITHIN
        while True:
            try:
                self._ready()
            except Exception as exc:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / "server.log").read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"{type(self).__name__} did not start:\n{log}") from exc
                time.sleep(0.02)
            else:
                return


def free_ports(count: int) -> list[int]:
    """
    Loopback ports that nobody uses now, each given to one server only.

    They lie below those that the system gives to connections, so none is taken between now and the start.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                found.append(port)
    return found


def can_connect(port: int) -> None:
    """Raise if nobody listens on a loopback port."""
    socket.create_connection(("127.0.0.1", port), timeout=1).close()


def nobody() -> dict[str, Any]:
    """Arguments of ``Popen`` that give up root, if we are root."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def give_to_nobody(folder: Path) -> None:
    """Let a server that gave up root write to its folder."""
    if user := nobody():
        os.chown(folder, user["user"], user["group"])


def readable_by_all(path: Path) -> bool:
    """Whether a user without rights can reach a path."""
    return os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)
