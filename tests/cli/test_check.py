"""`attnscope check`: exit status, formats, what is silenced, and what is refused.

The engine is the real one; its rules are made by hand, so that what is found stays the same.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import attnscope.checks.entry
from attnscope.checks import rules
from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped
from attnscope.cli import COMMANDS
from tests.checks.reports import RULES

Runner = Callable[..., Any]

SECOND = "        return self.second(x, x, x)[0]"


def _at_second(code: str) -> Callable[[Any], Iterator[Finding]]:
    """Return a check that finds a fault in each call of the second module."""

    def check(subject: Any) -> Iterator[Finding]:
        print("a rule prints while it runs")  # noqa: T201  as the code of a model may
        rule = rules.rule_of(code)
        assert rule is not None
        for call in subject.calls:
            if call.module == "second":
                yield rule.found(
                    "it moves by 0.41", {"moved": 0.41, "odd": float("nan")}, call=call
                )

    return check


def _skips(_subject: Any) -> Iterator[Finding]:
    raise Skipped("no cache is known; declare expect['cache']")


CHECKS = {"AS201": _at_second("AS201"), "AS401": _at_second("AS401"), "AS404": _skips}


@pytest.fixture(autouse=True)
def own_rules(monkeypatch: pytest.MonkeyPatch) -> tuple[Rule, ...]:
    table = tuple(replace(each, check=CHECKS.get(each.code, each.check)) for each in RULES)
    for place in (rules, attnscope.checks.entry):
        monkeypatch.setattr(place, "RULES", table)
    return table


@pytest.fixture
def marked(here: Path) -> Callable[[str], None]:
    """Return a function that puts a comment after the line at fault."""

    def mark(comment: str) -> None:
        text = (here / "net.py").read_text()
        assert text.count(SECOND) == 1
        (here / "net.py").write_text(text.replace(SECOND, f"{SECOND}  {comment}"))

    return mark


def line_of(here: Path) -> int:
    lines = (here / "net.py").read_text().splitlines()
    return next(at for at, line in enumerate(lines, start=1) if line.startswith(SECOND))


INPUTS = ("net.py:Net", "--inputs", "net.py:several")


# -- results -------------------------------------------------------------------------------------


def test_a_fault_is_exit_1_with_its_line(attnscope: Runner, here: Path) -> None:
    done = attnscope("check", *INPUTS)
    assert done.status == 1
    assert done.out.startswith("error AS201 future-leak\n")
    assert f"net.py:{line_of(here)}, in Net.forward, second, call 1" in done.out
    assert "❯" in done.out
    assert "note AS401 dead-head" in done.out
    assert done.out.rstrip().endswith(
        "1 error, 1 note; 5 rules run, 1 skipped (--verbose says why)"
    )
    assert "prints while it runs" in done.err
    assert "prints" not in done.out


def test_nothing_found_is_exit_0(attnscope: Runner) -> None:
    done = attnscope("check", *INPUTS, "--ignore", "AS201,AS4")
    assert done.status == 0
    last = done.out.splitlines()[-1]
    assert last == "no fault found: 3 rules over 2 calls; 3 ignored (--verbose says why)"


def test_a_note_alone_is_exit_0(attnscope: Runner) -> None:
    done = attnscope("check", *INPUTS, "--select", "dead-head")
    assert (done.status, done.out.splitlines()[-1]) == (
        0,
        "no fault found, 1 note: 1 rule over 2 calls",
    )


def test_verbose_tells_why_rules_were_skipped(attnscope: Runner) -> None:
    done = attnscope("check", *INPUTS, "--verbose", "--ignore", "AS102")
    assert "no cache is known; declare expect['cache']" in done.out
    assert "ignored by --ignore" in done.out
    assert "fix  Write it otherwise." in done.out


def test_json_is_as_promised(attnscope: Runner, here: Path) -> None:
    done = attnscope("check", *INPUTS, "--format", "json")

    def refuse(token: str) -> None:
        pytest.fail(f"{token} is no JSON")

    found = json.loads(done.out, parse_constant=refuse)
    assert done.status == 1
    assert set(found) >= {
        "schema", "target", "calls", "rules_run", "rules_skipped", "findings",
    }  # fmt: skip
    assert (found["schema"], found["target"], found["calls"]) == (
        "attnscope.check/1",
        "net.py:Net",
        2,
    )
    assert found["rules_skipped"] == [
        {"code": "AS404", "reason": "no cache is known; declare expect['cache']"}
    ]
    first = found["findings"][0]
    assert set(first) >= {
        "code", "name", "severity", "module", "call", "source", "message", "evidence", "fix",
    }  # fmt: skip
    assert first["source"]["line"] == line_of(here)
    assert first["evidence"] == {"moved": 0.41, "odd": None}


def test_sarif_and_github_have_the_line(attnscope: Runner, here: Path) -> None:
    log = json.loads(attnscope("check", *INPUTS, "--format", "sarif").out)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "net.py"
    assert place["region"]["startLine"] == line_of(here)
    command = attnscope("check", *INPUTS, "--format", "github").out.splitlines()[0]
    assert command.startswith(f"::error file=net.py,line={line_of(here)},title=AS201 future-leak::")


def test_github_without_a_finding_is_silent(attnscope: Runner) -> None:
    done = attnscope("check", *INPUTS, "--format", "github", "--select", "AS102")
    assert (done.status, done.out) == (0, "")


@pytest.mark.parametrize(
    ("name", "start"),
    [("table", "net.py:Net\n\nerror AS201"), ("json", "{"), ("sarif", "{"), ("github", "::error")],
)
def test_a_result_goes_into_a_file(attnscope: Runner, here: Path, name: str, start: str) -> None:
    done = attnscope("check", *INPUTS, "--format", name, "--output", "out.txt")
    assert (done.status, done.out) == (1, "")
    assert (here / "out.txt").read_text().startswith(start)
    assert "wrote out.txt: 1 error, 1 note; 5 rules run, 1 skipped" in done.err


def test_the_same_model_is_made_each_time(attnscope: Runner) -> None:
    first, second = (attnscope("check", *INPUTS, "--format", "json").out for _ in range(2))
    assert first == second


# -- what is silenced ----------------------------------------------------------------------------


def test_a_comment_silences(attnscope: Runner, marked: Callable[[str], None]) -> None:
    marked("# attnscope: ignore[AS201] it is meant")
    done = attnscope("check", *INPUTS)
    assert done.status == 0
    assert "1 silenced: 1 by comment" in done.out


def test_comments_that_do_not_are_told(attnscope: Runner, marked: Callable[[str], None]) -> None:
    marked("# attnscope: ignore[AS201]")
    done = attnscope("check", *INPUTS)
    assert done.status == 1
    assert "does not silence: it gives no reason" in done.out
    machine = attnscope("check", *INPUTS, "--format", "json")
    assert "does not silence: it gives no reason" in machine.err
    assert "gives no reason" in json.loads(machine.out)["notes"][0]


def test_an_idle_comment_is_told(attnscope: Runner, marked: Callable[[str], None]) -> None:
    marked("# attnscope: ignore[AS102] it was meant")
    assert "`attnscope: ignore[AS102]` silences nothing here" in attnscope("check", *INPUTS).out


def test_the_project_decides_which_rules_run(attnscope: Runner, here: Path) -> None:
    (here / "pyproject.toml").write_text(
        '[tool.attnscope]\nselect = ["AS2"]\nignore = { AS202 = "no padding" }\n'
        '[tool.attnscope.per-file-ignores]\n"net.py" = { AS201 = "published so" }\n'
    )
    found = json.loads(attnscope("check", *INPUTS, "--format", "json").out)
    assert found["rules_run"] == ["AS201", "AS203"]
    assert found["rules_skipped"] == [
        {"code": "AS202", "reason": "ignored by pyproject.toml: no padding"}
    ]
    (silenced,) = found["suppressed"]
    assert (silenced["code"], silenced["by"], silenced["reason"]) == (
        "AS201",
        "settings",
        "published so",
    )


def test_the_project_is_that_of_the_target(attnscope: Runner, here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.attnscope]\nselect = ["AS1"]\n')
    (here / "sub").mkdir()
    (here / "sub" / "pyproject.toml").write_text('[tool.attnscope]\nselect = ["AS201"]\n')
    (here / "net.py").rename(here / "sub" / "net.py")
    words = ("sub/net.py:Net", "--inputs", "sub/net.py:several", "--format", "json")
    assert json.loads(attnscope("check", *words).out)["rules_run"] == ["AS201"]


def test_a_baseline_is_written_and_then_silences(attnscope: Runner, here: Path) -> None:
    written = attnscope("check", *INPUTS, "--write-baseline", "known.json")
    assert written.status == 0
    assert "wrote 2 findings into known.json" in written.err
    assert "2 silenced: 2 by baseline" in written.out
    assert attnscope("check", *INPUTS).status == 1
    assert attnscope("check", *INPUTS, "--baseline", "known.json").status == 0
    (here / "pyproject.toml").write_text('[tool.attnscope]\nbaseline = "known.json"\n')
    (here / "net.py").write_text("# one line more\n" + (here / "net.py").read_text())
    linecache.checkcache()  # which a fresh process would not need
    assert attnscope("check", *INPUTS).status == 0
    again = attnscope("check", *INPUTS, "--write-baseline", "known.json")
    assert "wrote 2 findings" in again.err


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--select", "AS999"), "reading --select: there is no rule 'AS999'"),
        (("--ignore", "futur-leak"), "did you mean future-leak"),
        (("--select", "AS201", "--ignore", "AS2"), "no rule is left"),
        (("--baseline", "gone.json"), "there is no such file; make it with --write-baseline"),
        (("--baseline", "net.py"), "reading the baseline net.py"),
        (("--baseline", "net.py", "--write-baseline", "b.json"), "give one of them"),
        (("--write-baseline", "gone/b.json"), "there is no folder gone"),
        (("--output", "gone/out.json"), "there is no folder gone"),
        (("--format", "json", "--verbose"), "--verbose is for people"),
        (("--format", "xml"), "xml"),
        (("--expect", "casual=true"), "did you mean causal?"),
        (("--inputs", "net.py:odd"), "net.py"),
    ],
)
def test_it_is_exit_2_with_one_line(attnscope: Runner, words: tuple[str, ...], said: str) -> None:
    given = () if "--inputs" in words else ("--inputs", "net.py:several")
    done = attnscope("check", "net.py:Net", *given, *words)
    last = done.err.rstrip().splitlines()[-1]
    assert (done.status, done.out) == (2, "")
    assert last.startswith("attnscope: ")
    assert said in last


@pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
def test_a_file_that_is_no_baseline_is_told_before_the_model_is_made(
    attnscope: Runner, here: Path, option: str
) -> None:
    (here / "notes.json").write_text("[1]")
    done = attnscope("check", *INPUTS, option, "notes.json")
    assert done.status == 2
    assert "reading the baseline notes.json: its schema is not" in done.err
    assert "prints while it is imported" not in done.err
    assert (here / "notes.json").read_text() == "[1]"


def test_a_mistake_in_the_settings_is_exit_2(attnscope: Runner, here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.attnscope]\nselects = ["AS201"]\n')
    done = attnscope("check", *INPUTS)
    assert done.status == 2
    assert "no key 'selects'; did you mean select?" in done.err


def test_a_target_that_is_not_there_is_exit_2(attnscope: Runner) -> None:
    done = attnscope("check", "gone.py")
    assert (done.status, done.out) == (2, "")
    assert "there is no file gone.py" in done.err


def test_a_forward_that_raises_is_exit_2_where_no_rule_explains_it(attnscope: Runner) -> None:
    done = attnscope("check", "net.py:Fails", "--inputs", "net.py:several")
    assert (done.status, done.out) == (2, "")
    assert "two lines" in done.err


def test_the_help_has_an_example(attnscope: Runner) -> None:
    assert COMMANDS["check"] == "attnscope.cli.check"
    assert "attnscope check examples/article_attention.py" in attnscope("--help").out
