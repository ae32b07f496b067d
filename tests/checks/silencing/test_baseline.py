"""A baseline silences what was there before, and tells what of it is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnscope.checks import rules
from attnscope.checks.finding import Finding
from attnscope.checks.report import Report
from attnscope.checks.silencing import Settings, silence, write_baseline
from attnscope.errors import InputError
from tests.checks.reports import MODEL, RULES, finding, report, source


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rules, "RULES", RULES)
    monkeypatch.chdir(tmp_path)
    for name in ("model.py", "other.py"):
        (tmp_path / name).write_text(MODEL)
    return tmp_path


FILE = Path("known.json")


def after(known: Report, now: Report) -> Report:
    """Return `now` as silenced by a baseline that was written from `known`."""
    write_baseline(known, FILE, Path.cwd())
    return silence(now, Settings(baseline=FILE), Path.cwd())


def test_what_was_there_is_silenced() -> None:
    assert write_baseline(report(finding(), finding("AS401")), FILE, Path.cwd()) == 2
    found = after(report(finding(), finding("AS401")), report(finding(), finding("AS401")))
    assert found.ok
    assert not found.findings
    assert [(each.by, each.reason) for each in found.suppressed] == [
        ("baseline", "in known.json")
    ] * 2
    assert not found.notes


def test_a_line_may_move_and_the_numbers_may_change() -> None:
    moved = finding(source=source(line=90), message="0.43 now", evidence={})
    assert not after(report(finding()), report(moved)).findings


@pytest.mark.parametrize(
    "new",
    [
        finding("AS102"),
        finding(module="layers.1.attention"),
        finding(source=source(code="weights = scores.softmax(-2)")),
    ],
    ids=["code", "module", "line"],
)
def test_what_is_new_is_not_silenced(new: Finding) -> None:
    found = after(report(finding()), report(finding(), new))
    assert found.findings == (new,)


def test_the_same_fault_once_more_is_new() -> None:
    again = finding(source=source(line=20))
    found = after(report(finding()), report(finding(), again))
    assert found.findings == (again,)


def test_what_is_gone_is_told() -> None:
    found = after(report(finding(), finding("AS102")), report(finding()))
    assert found.notes == (
        "known.json: AS102 batch-attention in model.py no longer occurs; write the baseline anew",
    )


def test_what_did_not_run_is_not_called_gone() -> None:
    found = after(report(finding()), report(rules_run=("AS102",)))
    assert not found.notes


def test_what_is_folded_is_known_too() -> None:
    folded = finding("AS102", follows=(finding(),))
    assert not after(report(folded), report(folded)).notes
    found = after(report(folded), report(finding()))
    assert not found.findings
    assert len(found.notes) == 1


def test_a_file_holds_several_targets() -> None:
    write_baseline(report(finding(), target="model.py"), FILE, Path.cwd())
    write_baseline(report(finding("AS102"), target="other.py:make"), FILE, Path.cwd())
    settings = Settings(baseline=FILE)
    now = report(finding(), finding("AS102"), target="model.py")
    assert silence(now, settings, Path.cwd()).findings == (finding("AS102"),)
    assert set(json.loads(FILE.read_text())["targets"]) == {"model.py", "other.py:make"}


def test_a_target_without_findings_leaves_the_file(here: Path) -> None:
    assert here.is_dir()
    write_baseline(report(finding()), FILE, Path.cwd())
    assert write_baseline(report(), FILE, Path.cwd()) == 0
    assert json.loads(FILE.read_text())["targets"] == {}


def test_a_target_is_the_same_from_another_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_baseline(report(finding()), FILE, Path.cwd())
    (here / "inner").mkdir()
    monkeypatch.chdir(here / "inner")
    for target in ("../model.py", str(here / "model.py")):
        now = report(finding(source=source(here / "model.py")), target=target)
        assert not silence(now, Settings(baseline=here / FILE), Path.cwd()).findings


def test_the_file_is_made_for_people_and_for_diffs() -> None:
    write_baseline(report(finding()), FILE, Path.cwd())
    text = FILE.read_text()
    assert text.endswith("}\n")
    (entry,) = json.loads(text)["targets"]["model.py"]
    assert len(entry.pop("fingerprint")) == 32
    assert entry == {
        "code": "AS201",
        "name": "future-leak",
        "module": "layers.0.attention",
        "file": "model.py",
        "line": 6,
        "text": "weights = scores.softmax(-1)",
    }


ENTRY = {"fingerprint": "0", "code": "AS201", "name": "future-leak", "module": "", "text": ""}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no such file; make it with --write-baseline"),
        ("{", "Expecting property name"),
        ("[]", "its schema is not attnscope.baseline/1"),
        ({"schema": "attnscope.baseline/2"}, "its schema is not attnscope.baseline/1"),
        ({"targets": []}, "it has no list of findings by target"),
        ({"targets": {"model.py": {}}}, "it has no list of findings by target"),
        ({"targets": {"model.py": ["x"]}}, "an entry of model.py has not all of fingerprint, code"),
        ({"targets": {"model.py": [ENTRY | {"code": 1}]}}, "an entry of model.py has not all"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(content: Any, said: str) -> None:
    if content is not None:
        made = (
            {"schema": "attnscope.baseline/1"} | content if isinstance(content, dict) else content
        )
        FILE.write_text(made if isinstance(made, str) else json.dumps(made))
    with pytest.raises(InputError, match=r"reading the baseline known\.json") as caught:
        silence(report(finding()), Settings(baseline=FILE), Path.cwd())
    assert said in str(caught.value)


def test_a_file_of_something_else_is_not_overwritten() -> None:
    FILE.write_text('{"mine": 1}')
    with pytest.raises(InputError, match="its schema is not"):
        write_baseline(report(finding()), FILE, Path.cwd())
    assert FILE.read_text() == '{"mine": 1}'


def test_a_file_that_cannot_be_written_is_told() -> None:
    with pytest.raises(InputError, match=r"writing the baseline gone/known\.json: No such"):
        write_baseline(report(finding()), Path("gone/known.json"), Path.cwd())
