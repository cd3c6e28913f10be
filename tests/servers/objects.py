"""S3: one server that keeps conditional writes, and one that ignores them in silence."""

from __future__ import annotations

import contextlib
import glob
import os
import sysconfig
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import S3Store
from tests.servers.process import Server, can_connect, free_ports

ACCESS_KEY = "testaccess"
SECRET_KEY = "testsecretkey"
BUCKET = "holdfast"


def raw_bucket(endpoint: str, prefix: str | None = None) -> S3Store:
    """The tests' bucket on a server, through the driver alone. It never asks twice."""
    return S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        client_options={"allow_http": True, "timeout": timedelta(seconds=5)},
        retry_config={"max_retries": 0},
    )


def _script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)


class Seaweed(Server):
    """
    SeaweedFS in one process. ``endpoint`` is its S3 address.

    It would make a bucket for whoever writes to one that is not there, so that a test passes or fails
    by what another one did before it. Here a bucket is there from the start, or it is missing.
    """

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__(durable=durable)
        self._ports = free_ports(9)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/tests?endpoint={self.endpoint}"

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
            "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            "-admin.ui=false",
            "-webdav=false",
        ]
        where = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self.folder}", f"-s3.port={self.port}"]
        return [_script("weed"), "-logtostderr=true", "mini", f"-bucket={BUCKET}", *where, *ports, *off]

    def _ready(self) -> None:
        # Its gateway answers before the bucket is there, and lists it before there is room to write.
        bucket = raw_bucket(self.endpoint)
        obstore.put(bucket, "ready", b"")
        assert bytes(obstore.get(bucket, "ready").bytes()) == b""
        assert any(meta["path"] == "ready" for chunk in obstore.list(bucket) for meta in chunk)

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
        return f"s3://{BUCKET}/tests?endpoint={self.endpoint}"

    def _prepare(self) -> None:
        (self.folder / "data" / BUCKET).mkdir(parents=True)

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
