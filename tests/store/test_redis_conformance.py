"""The Redis store keeps the contract, on one server, on a cluster, and down to the bytes on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.servers import url_of

from holdfast.testing import StoreConformance, StoreKit
from holdfast.testing.conformance.expiry import ExpiryRules
from holdfast.testing.conformance.fork import ForkRules
from holdfast.testing.conformance.leases import LeaseRules
from holdfast.testing.conformance.lifecycle import LifecycleRules
from holdfast.testing.conformance.lists import ListRules
from holdfast.testing.conformance.log import LogRules
from holdfast.testing.conformance.owners import OwnerRules
from holdfast.testing.conformance.payloads import PayloadRules
from holdfast.testing.conformance.races import RaceRules
from holdfast.testing.conformance.redact import RedactRules
from holdfast.testing.conformance.tags import TagRules
from holdfast.testing.conformance.watch import WatchRules
from holdfast.testing.conformance.whole import DeleteRules
from holdfast.testing.conformance.work import WorkRules
from holdfast.testing.machine import compare

from .redis_kit import Tuned


@pytest.fixture(scope="module")
def server() -> Iterator[Tuned]:
    # Compressed, a secret could be there and not be found.
    server = Tuned("--rdbcompression", "no", durable=True).start()
    yield server
    server.stop()


@pytest.mark.server("valkey")
class TestOnOneServer(StoreConformance):
    @pytest.fixture
    def kit(self) -> StoreKit:
        return StoreKit(f"{url_of('valkey')}?durability=memory&prefix={uuid4().hex}&shards=4")


@pytest.mark.server("valkey_cluster")
class TestOnACluster(
    LogRules,
    ExpiryRules,
    ListRules,
    TagRules,
    LeaseRules,
    WorkRules,
    OwnerRules,
    DeleteRules,
    ForkRules,
    RaceRules,
    WatchRules,
    LifecycleRules,
):
    """The rules that slots, nodes and the way to them could break."""

    @pytest.fixture
    def kit(self) -> StoreKit:
        return StoreKit(f"{url_of('valkey_cluster')}&durability=memory&prefix={uuid4().hex}&shards=7")

    def test_random_operations_have_the_same_outcome_as_in_memory(self, kit: StoreKit) -> None:
        compare(kit, examples=4)


@pytest.mark.server("valkey")
class TestOnTheDisk(DeleteRules, RedactRules):
    """The rules about what is left, on a server whose files can be looked through."""

    test_the_bytes_kept_for_an_event_do_not_grow_with_the_log = (
        PayloadRules.test_the_bytes_kept_for_an_event_do_not_grow_with_the_log
    )

    @pytest.fixture
    def kit(self, server: Tuned) -> StoreKit:
        return StoreKit(f"{server.url}?prefix={uuid4().hex}&shards=4", scan=server.files)
