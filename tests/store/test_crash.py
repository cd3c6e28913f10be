"""The SQLite store survives SIGKILL, and the harness that says so finds the stores that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.testing.crash import POINTS, CrashConformance, CrashError, CrashReport, Points, crash, main

from . import liars


class TestSQLite(CrashConformance):
    points = POINTS["sqlite"]

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/crash.db"


def crashed(url: str, *, kills: int = 4, prepare: Callable[[], None] | None = None) -> CrashReport:
    return asyncio.run(crash(url, kills=kills, writers=2, prepare=prepare))


def test_a_store_that_answers_before_the_commit_is_found_to_lose(tmp_path: Path) -> None:
    report = crashed(f"sqlite:///{tmp_path}/liar.db", kills=2, prepare=liars.answer_before_the_commit)

    assert report.lost > 0
    assert not report.ok


def test_a_store_that_commits_in_two_steps_is_found_to_leave_halves(tmp_path: Path) -> None:
    report = crashed(f"sqlite:///{tmp_path}/liar.db", prepare=liars.commit_in_two_steps)

    assert report.half > 0
    assert not report.ok


def test_a_store_that_forgets_tokens_is_found_to_answer_differently(tmp_path: Path) -> None:
    """L5"""
    report = crashed(f"sqlite:///{tmp_path}/liar.db", prepare=liars.forget_tokens)

    assert report.findings.wrong
    assert not report.ok


def test_a_store_that_dies_with_its_process_loses_everything() -> None:
    report = crashed("memory://crash", kills=2)

    assert report.lost > 0
    assert report.found < report.acknowledged


def test_a_store_brings_points_of_its_own_where_children_die(tmp_path: Path) -> None:
    points = Points(("on the way in",), liars.come_by)

    report = asyncio.run(crash(f"sqlite:///{tmp_path}/a.db", kills=8, writers=4, points=points))

    assert report.points["on the way in"] > 0
    assert report.ok, report.findings.problems


def test_a_child_that_fails_by_itself_is_an_error_and_no_result(tmp_path: Path) -> None:
    with pytest.raises(CrashError, match="no such luck"):
        crashed(f"sqlite:///{tmp_path}/liar.db", prepare=liars.fail)


def test_the_command_shows_the_numbers_and_says_whether_the_store_kept_its_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([f"sqlite:///{tmp_path}/crash.db", "--kills", "2", "--writers", "1"])

    shown = capsys.readouterr().out
    assert code == 0
    assert "kills of a writing process" in shown
    assert shown.endswith("the store kept its word\n")
