"""The PostgreSQL store keeps the contract."""

from __future__ import annotations

import pytest

from holdfast.testing import StoreConformance, StoreKit

from .postgres import empty_schema


@pytest.mark.server("postgres")
class TestPostgresStore(StoreConformance):
    @pytest.fixture
    def kit(self) -> StoreKit:
        return StoreKit(empty_schema())
