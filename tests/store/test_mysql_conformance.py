"""The MySQL store keeps the contract, on MariaDB."""

from __future__ import annotations

import pytest

from holdfast.testing import StoreConformance, StoreKit

from .mysql import empty_tables


@pytest.mark.server("mariadb")
class TestMySQLStore(StoreConformance):
    @pytest.fixture
    def kit(self) -> StoreKit:
        return StoreKit(empty_tables())
