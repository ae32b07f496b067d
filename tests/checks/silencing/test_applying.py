"""Taking findings out of a report, and telling what silences nothing."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attnscope.checks import rules
from attnscope.checks.finding import Finding
from attnscope.checks.report import Report
from attnscope.checks.silencing import Settings, read_settings, silence
from tests.checks.reports import LINE, MODEL, RULES, finding, report, source

IGNORE = "  # attnscope: ignore[AS201] it is meant"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rules, "RULES", RULES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def put(here: Path, line: int, comment: str) -> None:
    """Put a comment at the end of a line of the model."""
    lines = MODEL.splitlines()
    lines[line - 1] += comment
    (here / "model.py").write_text("\n".join(lines) + "\n")


def silenced(made: Report, settings: Settings | None = None, model: Any = None) -> Report:
    return silence(made, settings or Settings(), Path.cwd(), model=model)


def model_of(here: Path) -> torch.nn.Module:
    """Import the model as it stands on the disk."""
    spec = importlib.util.spec_from_file_location("silenced_model", here / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: torch.nn.Module = module.Attention()
    return made


# -- by comments ---------------------------------------------------------------------------------


def test_a_comment_silences_the_finding_of_its_line(here: Path) -> None:
    put(here, LINE, IGNORE)
    found = silenced(report(finding()))
    assert found.ok
    assert not found.findings
    (one,) = found.suppressed
    assert (one.finding, one.by, one.reason) == (finding(), "comment", "it is meant")


@pytest.mark.parametrize(
    ("line", "made"),
    [(LINE - 1, finding()), (LINE, finding("AS102")), (LINE, finding(source=None))],
    ids=["other-line", "other-code", "no-line"],
)
def test_a_comment_silences_nothing_else(here: Path, line: int, made: Finding) -> None:
    put(here, line, IGNORE)
    found = silenced(report(made))
    assert found.findings == (made,)
    assert not found.suppressed


def test_a_comment_on_a_head_silences_all_inside(here: Path) -> None:
    put(here, 3, IGNORE)
    inside = (finding(), finding(source=source(line=7)))
    outside = finding(source=source(line=1))
    assert silenced(report(*inside, outside)).findings == (outside,)


def test_a_file_may_be_named_in_two_ways(here: Path) -> None:
    put(here, LINE, IGNORE)
    assert not silenced(report(finding(source=source(here / "model.py")))).findings
    assert not silenced(report(finding(source=source("./model.py")))).findings


def test_what_follows_goes_with_its_cause_and_may_go_alone(here: Path) -> None:
    cause = finding("AS102", source=source(line=5), follows=(finding(), finding("AS202")))
    put(here, 5, IGNORE.replace("AS201", "AS102"))
    assert not silenced(report(cause)).findings
    put(here, LINE, IGNORE)
    found = silenced(report(cause))
    assert found.findings == (replace(cause, follows=(finding("AS202"),)),)
    assert [each.finding.code for each in found.suppressed] == ["AS201"]


def test_a_comment_without_a_reason_silences_nothing_and_is_told(here: Path) -> None:
    put(here, LINE, "  # attnscope: ignore[AS201]")
    found = silenced(report(finding()))
    assert found.findings == (finding(),)
    assert found.notes[0].startswith("model.py:6: this `attnscope: ignore` does not silence: it gi")


# -- comments that are not needed ----------------------------------------------------------------


def test_a_comment_that_silences_nothing_is_told(here: Path) -> None:
    put(here, LINE, IGNORE)
    found = silenced(report(notes=("seen before",)), model=model_of(here))
    assert found.notes == (
        "model.py:6: `attnscope: ignore[AS201]` silences nothing here; take it out",
        "seen before",
    )


def test_only_the_codes_that_silence_nothing_are_told(here: Path) -> None:
    put(here, LINE, "  # attnscope: ignore[AS201, AS102] it is meant")
    found = silenced(report(finding()), model=model_of(here))
    assert found.notes == (
        "model.py:6: `attnscope: ignore[AS102]` silences nothing here; take it out",
    )


def test_a_comment_that_silences_what_follows_is_needed(here: Path) -> None:
    put(here, LINE, IGNORE)
    cause = finding("AS102", source=source(line=5), follows=(finding(),))
    assert not silenced(report(cause), model=model_of(here)).notes


@pytest.mark.parametrize(
    "made",
    [report(rules_run=("AS102",)), report(rules_run=("AS201", "AS404"))],
    ids=["not-run", "in-part"],
)
def test_a_rule_that_could_not_look_at_all_leaves_its_comments_alone(
    here: Path, made: Report
) -> None:
    code = "AS404" if "AS404" in made.rules_run else "AS201"
    put(here, LINE, IGNORE.replace("AS201", code))
    assert not silenced(made, model=model_of(here)).notes


def test_code_that_took_no_part_is_not_judged(here: Path) -> None:
    model = model_of(here)
    (here / "model.py").write_text(f"{MODEL}\n\ndef other():\n    return 1{IGNORE}\n")
    assert not silenced(report(), model=model).notes
    put(here, 3, IGNORE)  # the whole class, from its head
    assert silenced(report(), model=model).notes
    assert not silenced(report()).notes


# -- by settings ---------------------------------------------------------------------------------


def test_files_are_silenced_by_the_settings(here: Path) -> None:
    (here / "pyproject.toml").write_text(
        '[tool.attnscope.per-file-ignores]\n"*.py" = { AS201 = "published so" }\n"m*" = ["AS102"]\n'
    )
    found = silenced(
        report(finding(), finding("AS102"), finding("AS203")), read_settings(here / "model.py")
    )
    assert found.findings == (finding("AS203"),)
    assert [(each.by, each.reason) for each in found.suppressed] == [
        ("settings", "published so"),
        ("settings", "in m*"),
    ]


def test_rules_that_the_settings_ignore_are_told_as_skipped() -> None:
    settings = Settings(ignore={"AS203": "ignored by --ignore", "AS404": "ignored by --ignore"})
    made = report(rules_run=("AS201",))
    told = [(each.code, each.reason) for each in silenced(made, settings).rules_skipped]
    assert told == [("AS404", "no row is long enough"), ("AS203", "ignored by --ignore")]


def test_a_report_that_needs_no_silence_stays_as_it_is() -> None:
    made = report(finding(), finding("AS401"), notes=("a", "b"))
    assert silenced(made, model=torch.nn.Linear(2, 2)) == made
    assert silenced(made, model=lambda x: x) == made


def test_settings_that_ignore_without_a_reason_are_told() -> None:
    settings = Settings(ignore={"AS203": "ignored by pyproject.toml"}, unexplained=("AS203",))
    found = silenced(report(rules_run=("AS201",)), settings)
    assert found.notes[0] == (
        'the project\'s settings ignore AS203 and give no reason: write ignore = { AS203 = "why" }'
    )
    assert [each.ignored for each in found.rules_skipped if each.code == "AS203"] == [True]
