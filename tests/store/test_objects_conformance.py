"""The objects store keeps the contract, in a directory and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing import StoreConformance, StoreKit

from .objects_service import CREDENTIALS, Service
from .objects_taps import contents


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return Service.of_this_run()


class TestInADirectory(StoreConformance):
    @pytest.fixture
    def kit(self, tmp_path: Path) -> StoreKit:
        url = f"file://{tmp_path}/store?poll=0.05&durability=os"
        return StoreKit(url, scan=lambda: contents(tmp_path))


@pytest.mark.server("seaweed")
class TestOnAServer(StoreConformance):
    @pytest.fixture
    def kit(self, service: Service) -> StoreKit:
        return StoreKit(f"{service.url}&poll=0.05", scan=service.everything)
