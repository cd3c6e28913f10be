"""The objects store keeps the contract, in a directory and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing import StoreConformance, StoreKit
from holdfast.testing.conformance.lists import ListRules
from holdfast.testing.conformance.payloads import PayloadRules
from holdfast.testing.conformance.races import RaceRules
from holdfast.testing.conformance.tags import TagRules
from holdfast.testing.conformance.whole import DeleteRules
from holdfast.testing.machine import compare

from .objects_service import CREDENTIALS, Service
from .objects_taps import contents


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return Service.of_this_run()


class TestInADirectory(StoreConformance):
    """Without syncs, which change nothing that these rules speak of (``test_objects_power`` does)."""

    # Fewer than usual: another test does the same with everything merged at once.
    examples = 8

    @pytest.fixture
    def kit(self, tmp_path: Path) -> StoreKit:
        url = f"file://{tmp_path}/store?poll=0.05&durability=os"
        return StoreKit(url, scan=lambda: contents(tmp_path))


@pytest.mark.server("seaweed")
class TestOnAServer(RaceRules, ListRules, DeleteRules, TagRules, PayloadRules):
    """
    The rules that lean on what differs from a directory: conditions, listings, removals, sizes.

    The rest is decided above the requests, and has been tried in a directory.
    """

    @pytest.fixture
    def kit(self, service: Service) -> StoreKit:
        return StoreKit(f"{service.url}&poll=0.05&scrub=true", scan=service.everything)

    def test_random_operations_have_the_same_outcome_as_in_memory(self, kit: StoreKit) -> None:
        compare(kit, examples=1)
