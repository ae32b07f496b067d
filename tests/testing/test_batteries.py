"""A battery: which items it has, and which of them are expected to fail."""

from __future__ import annotations

from typing import Any

import pytest

from attnscope.checks.selecting import selected
from attnscope.errors import InputError
from attnscope.testing import battery, checked
from tests.checks.rules.by_hand import BY_HAND
from tests.testing.standin import Engine, X, items, net

Failed = pytest.fail.Exception

pytestmark = pytest.mark.usefixtures("engine")


# -- expected failures ---------------------------------------------------------------------------


def marks_of(**reasons: str) -> dict[str, list[pytest.Mark]]:
    made = battery(net, inputs=X, expected_failures=reasons)
    return {item.values[0].rule.code: [each.mark for each in item.marks] for item in made.args[1]}


def test_an_expected_failure_is_a_strict_xfail_with_its_reason() -> None:
    made = marks_of(AS201="mended in the next version")
    assert [codes for codes, marks in made.items() if marks] == ["AS201"]
    (mark,) = made["AS201"]
    assert mark.name == "xfail"
    assert mark.kwargs == {
        "strict": True, "reason": "mended in the next version", "raises": Failed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        ({"AS201": " "}, "AS201 has no reason"),
        ({"AS201": None}, "AS201 has no reason"),
        ({"AS299": "known"}, "there is no rule 'AS299'"),
        (["AS201"], "reasons of type list"),
    ],
    ids=["blank", "none", "unknown", "list"],
)
def test_reasons_that_can_t_be_used_are_refused(reasons: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        battery(net, expected_failures=reasons)
    with pytest.raises(InputError, match=words):
        checked(net, X, allow=reasons)


def test_an_expected_failure_that_has_no_item_is_refused() -> None:
    with pytest.raises(InputError, match="AS201 is expected to fail, and is not among"):
        battery(net, ignore=["AS201"], expected_failures={"AS201": "known"})


# -- which items there are -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, ["AS201", "AS202", "AS203", "AS404"]),
        ({"select": ["AS2"]}, ["AS201", "AS202", "AS203"]),
        ({"select": ["sink-head", "AS201"]}, ["AS201", "AS404"]),
        ({"ignore": ["AS2"]}, ["AS404"]),
        ({"select": ["AS2"], "ignore": ["empty-row"]}, ["AS201", "AS202"]),
    ],
)
def test_each_selected_rule_has_one_item_and_the_engine_runs_those(
    engine: Engine, options: dict[str, Any], codes: list[str]
) -> None:
    made = items(**options)
    assert list(made) == codes
    made[codes[0]]()
    asked = engine.asked[0]
    assert [rule.code for rule in selected(BY_HAND, asked.select, asked.ignore)] == codes


def test_items_are_named_by_code_and_name() -> None:
    mark = battery(net)
    assert [item.id for item in mark.args[1]][:2] == ["AS201-future-leak", "AS202-padding-leak"]
    assert mark.args[0] == "rule"


def test_a_battery_without_items_is_refused() -> None:
    with pytest.raises(InputError, match="no rule is left to be run"):
        battery(net, select=["AS201"], ignore=["future-leak"])
    with pytest.raises(InputError, match="no rule is left to be run"):
        checked(net, X, ignore=["AS"])


def test_an_unknown_rule_is_refused_while_tests_are_collected() -> None:
    with pytest.raises(InputError, match="there is no rule 'AS9'"):
        battery(net, select=["AS9"])
