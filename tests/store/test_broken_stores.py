"""The suite notices what it is there for: stores with one mistake each fail the tests of that rule."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

BROKEN = Path(__file__).parent / "broken" / "stores.py"

NOTICED_BY = {
    "NoHeadCheck": {
        "test_expect_lets_a_commit_pass_only_at_the_end_it_names",
        "test_of_writers_that_expect_the_same_end_exactly_one_wins",
    },
    "OwnerIgnored": {
        "test_another_owners_conversation_can_not_be_named",
        "test_nothing_of_one_owner_is_visible_to_another",
        "test_owners_with_hostile_names_are_apart",
        "test_the_same_id_of_two_owners_is_two_conversations",
    },
    "AnyAnswerWins": {
        "test_of_two_answers_only_the_first_counts",
        "test_every_move_from_another_status_is_stale",
        "test_an_answer_past_the_expiry_is_stale_even_if_no_sweeper_ran",
        "test_of_racing_resolvers_exactly_one_wins",
    },
    "HalfACommit": {
        "test_an_operation_that_fails_takes_every_other_one_back",
        "test_commits_that_fail_do_not_touch_those_beside_them",
    },
    "TokenIgnored": {
        "test_a_repeated_commit_gives_the_first_result_and_changes_nothing",
        "test_a_token_with_other_operations_is_refused",
        "test_a_token_that_races_with_itself_is_one_commit",
    },
    "NumbersRestart": {
        "test_revisions_do_not_come_back_after_a_drop_or_a_new_start",
        "test_every_commit_gives_a_revision_that_never_was",
        "test_fences_only_grow",
        "test_a_revision_does_not_delete_a_new_start",
    },
    "SearchLeaks": {
        "test_only_events_of_this_owner_are_found",
        "test_nothing_of_one_owner_is_visible_to_another",
    },
    "RestsBlindly": {"test_input_that_races_the_end_of_a_run_is_never_lost"},
    "NoFence": {
        "test_an_old_lease_can_not_commit_after_a_takeover",
        "test_a_released_lease_is_fenced",
        "test_a_fence_of_before_a_new_start_is_refused",
    },
    "TimeFences": {"test_time_alone_does_not_fence"},
    "AnswersAfterExpiry": {"test_an_answer_past_the_expiry_is_stale_even_if_no_sweeper_ran"},
    "RedactsTheLogOnly": {"test_a_redacted_event_is_not_found_by_its_text"},
    "ActivityByTheClock": {
        "test_activity_never_goes_back",
        "test_activity_stays_when_neither_event_nor_record_is_written",
    },
    "HandsOutItsState": {"test_what_a_store_gave_out_can_not_change_it"},
    "LaterMarkWins": {"test_an_earlier_mark_stays"},
    "ForksTakeCalls": {"test_a_fork_has_no_calls_tags_tokens_lease_or_work"},
    "DeletesLeaveTags": {"test_a_delete_leaves_nothing_that_any_read_could_find"},
    "ReadsItsOwnJson": {"test_an_event_comes_back_byte_for_byte"},
    "WritesInTwoSteps": {
        "test_a_cancelled_commit_is_there_whole_or_not_at_all",
        "test_concurrent_appenders_leave_no_gap_and_no_duplicate",
        "test_a_load_is_from_one_moment",
    },
    "ClaimsWhatIsHeld": {
        "test_a_conversation_with_work_is_claimed_once",
        "test_two_holders_never_both_run_one_conversation",
    },
    "ListsByOffset": {
        "test_what_does_not_change_is_on_exactly_one_page_while_others_write",
        "test_a_sweep_goes_on_although_what_it_saw_last_is_deleted",
    },
    "NoticesItsOwnOnly": {"test_a_change_is_noticed"},
    "BuriesItsDead": {"test_no_byte_is_left_after_a_scrub"},
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """For each broken store the tests that passed and those that failed."""
    report = tmp_path_factory.mktemp("broken") / "report.xml"
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no", f"--junitxml={report}"]
    subprocess.run([sys.executable, "-m", "pytest", *options, str(BROKEN)], capture_output=True, timeout=120)
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for case in ElementTree.parse(report).iter("testcase"):
        store = case.attrib["classname"].rpartition(".Test")[2]
        outcome = case[0].tag if len(case) else "passed"
        found[store][outcome].add(case.attrib["name"].partition("[")[0])
    return found


@pytest.mark.parametrize("store", NOTICED_BY)
def test_the_suite_notices_a_store_that_is_broken(
    outcomes: dict[str, dict[str, set[str]]], store: str
) -> None:
    seen = outcomes[store]

    assert NOTICED_BY[store] <= seen["failure"]
    assert seen["error"] == set()
    assert len(seen["passed"] - seen["failure"]) > len(seen["failure"])


def test_every_broken_store_is_looked_at(outcomes: dict[str, dict[str, set[str]]]) -> None:
    assert set(outcomes) == set(NOTICED_BY)
