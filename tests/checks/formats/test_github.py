"""Workflow commands: one line a finding, whatever it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscope.checks.formats.github import github
from tests.checks.reports import finding, report, source


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_command_has_file_line_and_title() -> None:
    command = github(report(finding()))
    assert command == (
        "::error file=model.py,line=6,title=AS201 future-leak::"
        "token 3 moves by 0.41 when token 7 changes, rounding explains 1e-07"
        "%0Ain layers.0.attention%0Afix: pass is_causal=True"
    )


@pytest.mark.parametrize(
    ("code", "command"), [("AS201", "::error "), ("AS203", "::warning "), ("AS401", "::notice ")]
)
def test_severities_in_the_words_of_github(code: str, command: str) -> None:
    assert github(report(finding(code))).startswith(command)


def test_signs_with_a_meaning_are_escaped() -> None:
    odd = finding(message="100 %\r\nof a: b, c", source=source("a,b:c%.py"), fix="", module="")
    assert github(report(odd)) == (
        "::error file=a%2Cb%3Ac%25.py,line=6,title=AS201 future-leak::100 %25%0D%0Aof a: b, c"
    )


def test_a_finding_without_a_line_names_no_file() -> None:
    command = github(report(finding(source=None)))
    assert command.startswith("::error title=AS201 future-leak::")


def test_further_places_and_what_follows_are_told() -> None:
    command = github(report(finding(also=("a", "b"), follows=(finding("AS202"),))))
    assert "%0Ain layers.0.attention and 2 more%0A" in command
    assert "%0Afollows from it: AS202 padding-leak: token 3" in command


def test_each_finding_is_one_line_and_nothing_is_nothing() -> None:
    assert len(github(report(finding(), finding("AS401"))).splitlines()) == 2
    assert not github(report())
