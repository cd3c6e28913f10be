"""The SQLite store keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing import StoreConformance, StoreKit


class TestSQLiteStore(StoreConformance):
    @pytest.fixture
    def kit(self, tmp_path: Path) -> StoreKit:
        def scan() -> bytes:
            return b"".join(path.read_bytes() for path in sorted(tmp_path.glob("a.db*")))

        return StoreKit(f"sqlite:///{tmp_path}/a.db", scan=scan)
