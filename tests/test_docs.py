"""The code that people copy runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")

BLOCKS = [
    pytest.param(
        match.group(1), id=f"{page.relative_to(ROOT)}:{page.read_text()[: match.start()].count(chr(10)) + 1}"
    )
    for page in PAGES
    for match in BLOCK.finditer(page.read_text())
]
MODULES = [
    m.name
    for m in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    if not m.name.startswith("holdfast.testing")
]


@pytest.mark.parametrize("code", BLOCKS)
def test_a_code_block_runs(code: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(code)

    done = subprocess.run(
        [sys.executable, "-W", "error", "block.py"], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


def test_the_example_of_the_readme_has_one_winner_and_goes_on_when_run_again(tmp_path: Path) -> None:
    [example] = BLOCK.findall((ROOT / "README.md").read_text())
    (tmp_path / "example.py").write_text(example)

    first, second = (
        subprocess.run(
            [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )

    for printed in (first, second):
        assert (printed.count("Resolution("), printed.count("was answered")) == (1, 1)
    assert "Book me a flight" not in first
    assert "Book me a flight" in second
    assert "The outcome of this call is unknown" in second


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]

    assert missing == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))

    assert result.failed == 0
