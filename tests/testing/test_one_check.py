"""One check inside a test: it fails with its report, unless what it found is allowed."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn

from attnscope.checks import rules
from attnscope.checks.finding import Finding
from attnscope.checks.report import Report
from attnscope.testing import checked
from tests.checks.rules.by_hand import BY_HAND, EMPTY, LEAK, PADDING, SINK

X = torch.zeros(2, 3, 4)

LEAKS = LEAK.found("later tokens move earlier outputs by 0.5", {"moved": 0.5})
EMPTIES = EMPTY.found("row 0 sees nothing", {"rows": 1})


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that says what the engine finds."""
    monkeypatch.setattr(rules, "RULES", BY_HAND)

    def say(*findings: Finding, **more: Any) -> None:
        class Engine:
            @staticmethod
            def check(*_args: Any, **_options: Any) -> Report:
                return Report("net", 1, findings, tuple(r.code for r in BY_HAND), **more)

        monkeypatch.setitem(sys.modules, "attnscope.checks.entry", Engine)

    return say


def test_a_sound_model_returns_its_report_with_the_notes(finds: Any) -> None:
    note = SINK.found("half the mass on token 0", {"share": 0.5})
    finds(note)
    report = checked(nn.Linear(4, 4), X)
    assert report.findings == (note,)
    assert report.ok


def test_a_fault_fails_with_the_whole_report_as_text(finds: Any) -> None:
    finds(LEAKS, EMPTIES)
    with pytest.raises(pytest.fail.Exception) as failure:
        checked(nn.Linear(4, 4), X)
    said = str(failure.value)
    assert said.startswith("AS201 future-leak, AS203 empty-row in net\n")
    assert "later tokens move earlier outputs by 0.5" in said
    assert "AS203 empty-row" in said
    assert not failure.value.pytrace


@pytest.mark.parametrize("asked", ["AS201", "future-leak", "AS20"])
def test_what_is_allowed_is_no_failure_and_is_kept(finds: Any, asked: str) -> None:
    finds(LEAKS)
    report = checked(nn.Linear(4, 4), X, allow={asked: "a prefix is read both ways"})
    assert (report.findings, report.ok) == ((), True)
    (kept,) = report.suppressed
    assert kept.finding == LEAKS
    assert (kept.by, kept.reason) == ("allow", "a prefix is read both ways")


def test_other_findings_than_the_allowed_still_fail(finds: Any) -> None:
    finds(LEAKS, EMPTIES)
    with pytest.raises(pytest.fail.Exception, match="row 0 sees nothing"):
        checked(nn.Linear(4, 4), X, allow={"AS201": "a prefix is read both ways"})


def test_what_follows_from_an_allowed_finding_is_allowed_with_it(finds: Any) -> None:
    follower = PADDING.found("padding moves it, too", {"moved": 0.5})
    finds(LEAKS.with_follower(follower))
    assert checked(nn.Linear(4, 4), X, allow={"AS201": "a prefix"}).ok


def test_the_first_line_of_a_failure_leaves_notes_out_and_names_each_fault_once(
    finds: Any,
) -> None:
    finds(LEAKS, LEAKS, SINK.found("half the mass on token 0", {"share": 0.5}))
    with pytest.raises(pytest.fail.Exception) as failure:
        checked(nn.Linear(4, 4), X)
    assert str(failure.value).splitlines()[0] == "AS201 future-leak in net"


def test_what_is_allowed_and_was_not_found_is_said(finds: Any) -> None:
    finds(notes=("something else",))
    report = checked(nn.Linear(4, 4), X, allow={"AS203": "the first row is empty"})
    assert report.notes[0] == "something else"
    assert report.notes[1].startswith("AS203 is allowed (the first row is empty) and was not found")
