"""``holdfast migrate``, as an operator runs it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest


def holdfast(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def test_check_tells_by_its_exit_code_and_changes_nothing(tmp_path: Path) -> None:
    """L17: schema upgrades are explicit, checkable and printable."""
    before = holdfast("migrate", "sqlite:///a.db", "--check", cwd=tmp_path)
    made = list(tmp_path.iterdir())
    migrated = holdfast("migrate", "sqlite:///a.db", cwd=tmp_path)
    after = holdfast("migrate", "sqlite:///a.db", "--check", cwd=tmp_path)

    assert (before.returncode, migrated.returncode, after.returncode) == (1, 0, 0)
    assert made == []


def test_the_printed_sql_makes_the_same_schema_as_a_migration(tmp_path: Path) -> None:
    """L17: a fresh schema equals a migrated one, also if a person runs the printed script."""
    printed = holdfast("migrate", "sqlite:///by_hand.db", "--sql", cwd=tmp_path).stdout
    by_hand = sqlite3.connect(tmp_path / "by_hand.db")
    by_hand.executescript(printed)
    holdfast("migrate", "sqlite:///by_us.db", cwd=tmp_path)
    by_us = sqlite3.connect(tmp_path / "by_us.db")

    assert schema(by_hand) == schema(by_us)
    assert holdfast("migrate", "sqlite:///by_hand.db", "--check", cwd=tmp_path).returncode == 0
    by_hand.close()
    by_us.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nosql://x", "sqlite://"),
        ("sqlite://x", "names no file"),
        ("sqlite:///a.db?colour=red", "unknown parameter 'colour'"),
        ("sqlite:///missing/a.db", "does not exist"),
    ],
)
def test_a_wrong_url_gets_one_clear_line_and_exit_code_2(url: str, says: str, tmp_path: Path) -> None:
    done = holdfast("migrate", url, cwd=tmp_path)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_shows_the_command(tmp_path: Path) -> None:
    done = holdfast("--help", cwd=tmp_path)

    assert done.returncode == 0
    assert "migrate" in done.stdout


def test_without_its_packages_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['typer'] = None; from holdfast.cli import main; main()"

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install 'holdfast[cli]'")


def schema(connection: sqlite3.Connection) -> list[object]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    return [
        *rows,
        *(connection.execute(f"PRAGMA {p}").fetchone() for p in ("application_id", "user_version")),
    ]
