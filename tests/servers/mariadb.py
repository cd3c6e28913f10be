"""MariaDB from Debian's packages, installed or unpacked privately without root."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.servers.process import Server, can_connect, give_to_nobody, nobody

PACKAGES = ("mariadb-server-core", "mariadb-client-core")


class MariaDB(Server):
    """A MariaDB server with the superuser ``root`` and no password."""

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/holdfast"

    def _prepare(self) -> None:
        give_to_nobody(self.folder)
        self._root = _installed_or_unpacked()
        login = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        subprocess.run(
            [f"{self._root}/usr/bin/mariadb-install-db", "--no-defaults", *self._base, *login],
            check=True,
            capture_output=True,
            env=self._environment,
            cwd=self.folder,
            **self._user,
        )
        (self.folder / "init.sql").write_text("CREATE DATABASE IF NOT EXISTS holdfast;\n")

    @property
    def _base(self) -> list[str]:
        usr = f"{self._root}/usr"
        data = f"--datadir={self.folder}/data"
        return [
            f"--basedir={usr}",
            data,
            f"--lc-messages-dir={usr}/share/mysql",
            "--innodb-log-file-size=64M",
        ]

    def _command(self) -> list[str]:
        folder = self.folder
        where = [
            f"--socket={folder}/s.sock",
            f"--port={self.port}",
            f"--pid-file={folder}/pid",
            f"--tmpdir={folder}",
        ]
        size = ["--innodb-buffer-pool-size=512M", "--max-connections=300", "--max-allowed-packet=128M"]
        sync = [] if self.durable else ["--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite"]
        return [
            f"{self._root}/usr/sbin/mariadbd",
            "--no-defaults",
            *self._base,
            *where,
            "--bind-address=127.0.0.1",
            f"--plugin-dir={self._root}/usr/lib/mysql/plugin",
            f"--init-file={folder}/init.sql",
            "--character-set-server=utf8mb4",
            *size,
            *sync,
        ]

    def _ready(self) -> None:
        can_connect(self.port)

    @property
    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "HOME": str(self.folder)}
        if self._root:
            libraries = (f"{self._root}/usr/lib/x86_64-linux-gnu", f"{self._root}/lib/x86_64-linux-gnu")
            environment["LD_LIBRARY_PATH"] = ":".join(libraries)
        return environment

    @property
    def _user(self) -> dict[str, Any]:
        return nobody()


def _installed_or_unpacked() -> str:
    """The root below which the server lies: "" if it is installed, else a private cache."""
    if Path("/usr/sbin/mariadbd").exists() and Path("/usr/bin/my_print_defaults").exists():
        return ""
    cache = Path(os.environ.get("HOLDFAST_TEST_CACHE") or f"/var/tmp/holdfast-tests-{os.getuid()}")
    cache.mkdir(parents=True, exist_ok=True)
    cache.chmod(0o755)
    root = cache / "mariadb"
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / ".complete").exists():
            _unpack(cache, root)
    return str(root)


def _unpack(cache: Path, root: Path) -> None:
    for folder in ("state/lists/partial", "archives/archives/partial", "mariadb"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    options = (
        f"Dir::State={cache}/state",
        "Dir::State::status=/var/lib/dpkg/status",
        f"Dir::Cache={cache}/archives",
        "Debug::NoLocking=1",
        "APT::Sandbox::User=",
    )
    apt = ["apt-get", "-q", *(part for option in options for part in ("-o", option))]
    subprocess.run([*apt, "update"], check=True, capture_output=True)
    install = ["install", "-y", "--no-install-recommends", "--download-only", *PACKAGES]
    subprocess.run([*apt, *install], check=True, capture_output=True)
    for package in (cache / "archives" / "archives").glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    (root / ".complete").touch()
