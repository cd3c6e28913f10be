"""Every rule of the store contract."""

from __future__ import annotations

from typing import ClassVar

from holdfast.testing.conformance.atomic import AtomicRules
from holdfast.testing.conformance.calls import CallRules
from holdfast.testing.conformance.cancel import CancelRules
from holdfast.testing.conformance.expiry import ExpiryRules
from holdfast.testing.conformance.fork import ForkRules
from holdfast.testing.conformance.header import HeaderRules
from holdfast.testing.conformance.leases import LeaseRules
from holdfast.testing.conformance.lifecycle import LifecycleRules
from holdfast.testing.conformance.lists import ListRules
from holdfast.testing.conformance.log import LogRules
from holdfast.testing.conformance.owners import OwnerRules
from holdfast.testing.conformance.payloads import PayloadRules
from holdfast.testing.conformance.races import RaceRules
from holdfast.testing.conformance.records import RecordRules
from holdfast.testing.conformance.redact import RedactRules
from holdfast.testing.conformance.search import SearchRules
from holdfast.testing.conformance.tags import TagRules
from holdfast.testing.conformance.tokens import TokenRules
from holdfast.testing.conformance.watch import WatchRules
from holdfast.testing.conformance.whole import DeleteRules
from holdfast.testing.conformance.work import WorkRules
from holdfast.testing.kit import StoreKit
from holdfast.testing.machine import compare


class StoreConformance(
    LogRules,
    CallRules,
    ExpiryRules,
    RecordRules,
    HeaderRules,
    ListRules,
    TagRules,
    SearchRules,
    LeaseRules,
    WorkRules,
    TokenRules,
    OwnerRules,
    DeleteRules,
    ForkRules,
    RedactRules,
    PayloadRules,
    AtomicRules,
    RaceRules,
    CancelRules,
    WatchRules,
    LifecycleRules,
):
    """
    All that a store promises, tried.

    A store's whole test file is a fixture and a class that inherits this one::

        class TestMyStore(StoreConformance):
            @pytest.fixture
            def kit(self, tmp_path: Path) -> StoreKit:
                return StoreKit(f"mystore://{tmp_path}/data", scan=lambda: (tmp_path / "data").read_bytes())

    It needs ``pip install 'holdfast[testing]'``. The tests are independent and run in any order
    and in parallel. ``HOLDFAST_EXAMPLES=1000`` tries that many random histories instead of a few.
    """

    examples: ClassVar[int] = 20
    """Random histories that are tried unless the environment says how many."""

    def test_random_operations_have_the_same_outcome_as_in_memory(self, kit: StoreKit) -> None:
        compare(kit, examples=self.examples)
