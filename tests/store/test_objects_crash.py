"""The objects store survives SIGKILL of its processes, in a directory and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.crash import CrashConformance, Points

from .objects_points import NAMES, install
from .objects_service import CREDENTIALS, Service


class TestInADirectory(CrashConformance):
    kills = 14
    points = Points(NAMES, install)

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}/store?durability=os"


@pytest.mark.server("seaweed")
class TestOnAServer(CrashConformance):
    kills = 3
    points = Points((), install)

    @pytest.fixture
    def url(self, monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        return Service.of_this_run().url
