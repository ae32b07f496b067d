"""One item of a battery: what of a report makes it pass, fail, skip, or be expected to fail."""

from __future__ import annotations

import pytest
from torch import nn

from attnscope.checks.report import SkippedRule, Suppressed
from attnscope.checks.rule import Rule
from attnscope.errors import TargetError
from tests.checks.rules.by_hand import EMPTY, LEAK, PADDING, SINK
from tests.testing.standin import Engine, found, items, net

Failed, Skipped, Xfailed = pytest.fail.Exception, pytest.skip.Exception, pytest.xfail.Exception

LEAKS = found(LEAK, "later tokens move earlier outputs by 0.5")


def test_a_rule_that_ran_and_found_nothing_passes(engine: Engine) -> None:
    for item in items().values():
        item()
    assert len(engine.asked) == 1


@pytest.mark.parametrize("rule", [LEAK, EMPTY], ids=["error", "warning"])
def test_an_error_and_a_warning_fail_with_the_report_of_this_rule_alone(
    engine: Engine, rule: Rule
) -> None:
    other = found(PADDING, "this is of another rule")
    engine.reports(found(rule, "moved by 0.25"), other)
    with pytest.raises(Failed) as failure:
        items()[rule.code]()
    said = str(failure.value)
    assert f"{rule.code} {rule.name}" in said
    assert "moved by 0.25" in said
    assert rule.fix.split(":")[0] in said
    assert "another rule" not in said
    items()["AS404"]()


def test_a_note_is_no_failure(engine: Engine) -> None:
    engine.reports(found(SINK), found(LEAK, severity="note"))
    items()["AS404"]()
    items()["AS201"]()


def test_a_skipped_rule_skips_with_the_reason_of_the_report(engine: Engine) -> None:
    reasons = (SkippedRule("AS202", "which input is padding? say expect padding"),)
    engine.reports(rules_run=("AS201",), rules_skipped=reasons)
    with pytest.raises(Skipped, match="which input is padding"):
        items()["AS202"]()
    items()["AS201"]()


def test_a_rule_that_ran_on_a_part_passes(engine: Engine) -> None:
    engine.reports(rules_run=("AS202",), rules_skipped=(SkippedRule("AS202", "call 3 unread"),))
    items()["AS202"]()


def test_a_rule_of_which_the_report_says_nothing_fails(engine: Engine) -> None:
    engine.reports(rules_run=("AS201",))
    with pytest.raises(Failed, match="AS202 was neither run nor skipped"):
        items()["AS202"]()


def test_what_follows_from_another_fault_is_left_to_its_item(engine: Engine) -> None:
    engine.reports(LEAKS.with_follower(found(PADDING)))
    with pytest.raises(Skipped, match="AS202 padding-leak follows from AS201 future-leak"):
        items()["AS202"]()
    with pytest.raises(Failed, match="later tokens"):
        items()["AS201"]()


def test_it_follows_through_several_and_notes_that_follow_don_t_matter(engine: Engine) -> None:
    deep = found(PADDING).with_follower(found(EMPTY)).with_follower(found(SINK))
    engine.reports(LEAKS.with_follower(deep))
    with pytest.raises(Skipped, match="follows from AS201"):
        items()["AS203"]()
    items()["AS404"]()


def test_a_rule_that_found_faults_of_its_own_fails_for_those_alone(engine: Engine) -> None:
    engine.reports(LEAKS.with_follower(found(PADDING)), found(PADDING, "moved on its own"))
    with pytest.raises(Failed, match="moved on its own"):
        items()["AS202"]()


def test_a_silenced_finding_is_an_expected_failure_with_its_reason(engine: Engine) -> None:
    engine.reports(suppressed=(Suppressed(LEAKS, "comment", "a prefix is read both ways"),))
    with pytest.raises(Xfailed, match="silenced by comment: a prefix is read both ways"):
        items()["AS201"]()


def test_an_expected_failure_that_follows_from_another_still_fails(engine: Engine) -> None:
    engine.reports(LEAKS.with_follower(found(PADDING)))
    with pytest.raises(Failed, match="follows from AS201 future-leak: later tokens"):
        items(expected_failures={"padding-leak": "known"})["AS202"]()


def test_nothing_is_built_before_an_item_runs_and_once_for_all(engine: Engine) -> None:
    built = []

    def make() -> nn.Module:
        built.append(1)
        return net()

    made = items(make)
    assert (built, engine.asked) == ([], [])
    for item in made.values():
        item()
    assert len(built) == len(engine.asked) == 1


def test_the_first_item_shows_why_nothing_could_be_checked_and_the_others_skip(
    engine: Engine,
) -> None:
    engine.error = TargetError("checking net", "its forward raised", "mend that line")
    made = items()
    with pytest.raises(TargetError, match="its forward raised"):
        made["AS202"]()
    for code in ("AS201", "AS202"):
        with pytest.raises(Skipped, match="nothing was checked: TargetError: checking net"):
            made[code]()
    assert len(engine.asked) == 1
