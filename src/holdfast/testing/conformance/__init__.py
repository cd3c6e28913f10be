"""The rules of the store contract as tests, one module a topic. ``suite`` has them all."""

from __future__ import annotations

import pkgutil

import pytest

# A failing assertion shows its values only in modules that pytest rewrites, and it must know them
# before they are imported.
pytest.register_assert_rewrite(
    "holdfast.testing.machine", *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
)
