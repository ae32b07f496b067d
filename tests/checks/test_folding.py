"""One fault is one finding: layers are joined, what follows is folded under its cause."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from attnscope.calls.source import Source
from attnscope.checks import folding
from attnscope.checks.finding import Finding, Severity
from attnscope.checks.folding import folded
from attnscope.checks.rule import Rule
from tests.checks.rules.by_hand import made_rule

RULES = {
    "AS102": made_rule("AS102", "batch-attention", explains=("AS201", "AS103")),
    "AS103": made_rule("AS103", "head-scramble", explains=("AS102", "AS202")),
    "AS201": made_rule("AS201", "future-leak", explains=("AS202",)),
    "AS202": made_rule("AS202", "padding-leak"),
}


@pytest.fixture(autouse=True)
def _rules_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(code: str) -> Rule | None:
        return RULES.get(code)

    monkeypatch.setattr(folding, "rule_of", of)


def found(
    code: str, severity: Severity = "error", *, line: int | None = None, **more: Any
) -> Finding:
    source = None if line is None else Source("model.py", line, "forward", "")
    return Finding(code, code, severity, "message", {}, "fix", source, **more)


def tree(findings: list[Finding]) -> list[Any]:
    return [(f.code, [each.code for each in f.follows]) for f in folded(findings)]


def test_one_line_in_several_layers_is_one_finding_with_its_places() -> None:
    layers = [found("AS201", line=3, module=f"layers.{at}", call=at) for at in (0, 1, 1, 2)]
    (only,) = folded(layers)
    assert (only.module, only.also) == ("layers.0", ("layers.1", "layers.2"))


def test_other_lines_and_other_rules_stay_apart() -> None:
    findings = [found("AS201", line=3), found("AS201", line=4), found("AS202", "note", line=3)]
    assert len(folded([*findings[:2]])) == 2
    assert tree(findings) == [("AS201", ["AS202"]), ("AS201", [])]


def test_without_a_line_the_module_tells_them_apart() -> None:
    assert len(folded([found("AS201", module="a"), found("AS201", module="b")])) == 2


def test_what_follows_hangs_under_the_first_cause_in_any_order() -> None:
    findings = [found("AS202", line=1), found("AS201", line=2), found("AS102", line=3)]
    for order in itertools.permutations(findings):
        assert tree(list(order)) == [("AS102", ["AS201", "AS202"])] or tree(list(order)) == [
            ("AS102", ["AS202", "AS201"])
        ]


def test_rules_that_explain_each_other_make_no_circle() -> None:
    assert tree([found("AS103", line=1), found("AS102", line=2)]) == [("AS102", ["AS103"])]


def test_a_milder_finding_is_no_cause_of_a_graver_one() -> None:
    findings = [found("AS102", "note", line=1), found("AS201", line=2)]
    assert {code for code, _ in tree(findings)} == {"AS102", "AS201"}


def test_a_call_does_not_cause_what_an_earlier_one_does() -> None:
    late, early = found("AS102", line=1, call=3), found("AS201", line=2, call=1)
    assert len(folded([late, early])) == 2
    assert tree([found("AS102", line=1, call=1), found("AS201", line=2, call=3)]) == [
        ("AS102", ["AS201"])
    ]
    assert tree([late, found("AS201", line=2)]) == [("AS102", ["AS201"])]


def test_nothing_is_lost() -> None:
    findings = [found(code, line=at) for at, code in enumerate(RULES)]
    roots = folded(findings)
    assert sum(1 + len(root.follows) for root in roots) == len(findings)
