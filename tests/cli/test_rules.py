"""`attnscope rules`: the list of rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from attnscope.checks import rules
from attnscope.checks.rules import RULES
from tests.checks.rules.by_hand import BY_HAND

Runner = Callable[..., Any]


@pytest.fixture(autouse=True)
def _rules_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", BY_HAND)


def test_the_table_lists_every_rule(attnscope: Runner) -> None:
    done = attnscope("rules")
    assert (done.status, done.err) == (0, "")
    for rule in BY_HAND:
        assert f"{rule.code}  {rule.severity}" in done.out
        assert rule.name in done.out
    assert max(map(len, done.out.splitlines())) <= 100


def test_json_is_all_of_standard_output(attnscope: Runner) -> None:
    done = attnscope("rules", "--format", "json")
    data = json.loads(done.out)
    assert (done.status, data["schema"]) == (0, "attnscope.rules/1")
    listed = data["rules"]
    assert [each["code"] for each in listed] == [rule.code for rule in BY_HAND]
    assert listed[2]["severity"] == "warning"
    assert listed[3]["name"] == "sink-head"
    assert "second sentence" not in listed[0]["what"]


def test_the_rules_that_there_are_can_be_listed(
    attnscope: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RULES", RULES)
    data = json.loads(attnscope("rules", "--format", "json").out)
    assert [each["code"] for each in data["rules"]] == [rule.code for rule in RULES]
    assert attnscope("rules").status == 0


def test_an_unknown_option_is_refused(attnscope: Runner) -> None:
    done = attnscope("rules", "--format", "sarif")
    assert (done.status, done.out) == (2, "")
    assert "sarif" in done.err
