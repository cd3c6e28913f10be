"""S3: one server that keeps conditional writes, and one that ignores them in silence."""

from __future__ import annotations

import contextlib
import glob
import os
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path

from tests.servers.process import Server, can_connect, free_ports

ACCESS_KEY = "testaccess"
SECRET_KEY = "testsecretkey"


def _script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)


class Seaweed(Server):
    """SeaweedFS in one process. ``endpoint`` is its S3 address."""

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__(durable=durable)
        self._ports = free_ports(9)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://holdfast/tests?endpoint={self.endpoint}"

    @property
    def _environment(self) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "WEED_", "S3_"))}
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        return {**clean, **keys, "HOME": str(self.folder), "TMPDIR": str(self.folder)}

    def _command(self) -> list[str]:
        names = ["s3.port.grpc"]
        for role in ("master", "volume", "filer", "admin"):
            names += [f"{role}.port", f"{role}.port.grpc"]
        ports = [f"-{name}={port}" for name, port in zip(names, self._ports, strict=True)]
        off = [
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            "-admin.ui=false",
            "-webdav=false",
        ]
        where = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self.folder}", f"-s3.port={self.port}"]
        return [_script("weed"), "-logtostderr=true", "mini", *where, *ports, *off]

    def _ready(self) -> None:
        try:
            urllib.request.urlopen(f"{self.endpoint}/", timeout=1).close()
        except urllib.error.HTTPError as exc:
            exc.close()
            if exc.code >= 500:
                raise

    def stop(self) -> None:
        super().stop()
        for port in (self.port, *self._ports):
            for left in glob.glob(f"/tmp/seaweedfs-*-{port}.sock"):
                with contextlib.suppress(OSError):
                    os.unlink(left)


class Rclone(Server):
    """``rclone serve s3``: it answers If-None-Match with success, whatever is there."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://holdfast/tests?endpoint={self.endpoint}"

    def _prepare(self) -> None:
        (self.folder / "data" / "holdfast").mkdir(parents=True)

    def _command(self) -> list[str]:
        login = ["--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"]
        return [
            _script("rclone"),
            "serve",
            "s3",
            str(self.folder / "data"),
            "--addr",
            f"127.0.0.1:{self.port}",
            *login,
        ]

    def _ready(self) -> None:
        can_connect(self.port)
