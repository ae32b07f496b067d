"""What a check looks like on a terminal: the fault first, then its proof, then the fix."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from attnscope.checks import rules
from attnscope.checks.report import Report, Suppressed
from attnscope.show.report import report_view
from tests.checks.reports import MODEL, RULES, finding, report, source


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rules, "RULES", RULES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def drawn(made: Report, *, verbose: bool = False, width: int = 100) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False, markup=False)
    console.print(report_view(made, verbose=verbose, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def coloured(made: Report) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system="standard")
    console.print(report_view(made))
    return out.getvalue()


def test_a_finding_reads_from_what_to_the_fix() -> None:
    follower = finding("AS202", message="token 3 moves")
    made = finding(also=tuple("abcde"), follows=(follower,))
    assert drawn(report(made)) == [
        "error AS201 future-leak",
        "  at model.py:6, in Attention.forward, layers.0.attention, call 0",
        "    5 │ scores = q @ k.mT",
        "  ❯ 6 │ weights = scores.softmax(-1)",
        "    7 │ return weights @ v",
        "",
        "  token 3 moves by 0.41 when token 7 changes, rounding explains 1e-07",
        "    largest change  0.41",
        "    changed         7, 8, 9",
        "",
        "  why  Why future-leak matters.",
        "  fix  pass is_causal=True",
        "  also in: a … (4 more)",
        "  follows from it: AS202 padding-leak (model.py:6): token 3 moves",
        "",
        "1 error; 5 rules run, 1 skipped (--verbose says why)",
    ]  # fmt: skip


def test_without_a_line_or_numbers_a_finding_is_shorter() -> None:
    lines = drawn(report(finding(source=None, evidence={}, fix="")))
    assert lines[:5] == [
        "error AS201 future-leak",
        "  at layers.0.attention, call 0",
        "",
        "  token 3 moves by 0.41 when token 7 changes, rounding explains 1e-07",
        "",
    ]


def test_a_note_is_brief_until_all_is_asked_for() -> None:
    made = report(finding("AS401", also=("layers.1", "layers.2")))
    assert drawn(made)[:3] == [
        "note AS401 dead-head, model.py:6 and 2 more",
        "  token 3 moves by 0.41 when token 7 changes, rounding explains 1e-07",
        "",
    ]
    assert "  fix  pass is_causal=True" in drawn(made, verbose=True)


def test_it_is_calm_when_nothing_is_found() -> None:
    assert drawn(report()) == [
        "no fault found: 5 rules over 6 calls; 1 skipped (--verbose says why)"
    ]


def test_all_that_was_left_out_is_told_to_those_who_ask() -> None:
    made = report(
        suppressed=(Suppressed(finding(), "comment", "it is meant"),),
        notes=("taken as batch axis: 0",),
    )
    assert drawn(made, verbose=True) == [
        "silenced",
        "  AS201 future-leak, model.py:6",
        "    comment: it is meant",
        "skipped",
        "  AS404",
        "    no row is long enough",
        "remark taken as batch axis: 0",
        "",
        "no fault found: 5 rules over 6 calls; 1 skipped; 1 silenced: 1 by comment",
    ]
    assert drawn(made)[0] == "remark taken as batch axis: 0"


LONG = "a word " * 60


@pytest.mark.parametrize("width", [100, 72, 40])
@pytest.mark.parametrize("verbose", [False, True])
def test_it_fits_the_terminal(width: int, *, verbose: bool) -> None:
    code = source("gone.py", 3, code="x = " + "y + " * 60)
    made = report(
        finding(message=LONG, fix=LONG, source=code, evidence={"name": LONG, "n" * 20: LONG}),
        finding(also=("layers.0.attention",) * 2, follows=(finding(message=LONG),)),
        finding("AS401", message=LONG),
        notes=(LONG,),
    )
    lines = drawn(made, verbose=verbose, width=width)
    assert max(map(len, lines)) <= width
    assert any(line.endswith(("+…", " …")) for line in lines)


def test_severities_have_their_colours() -> None:
    shown = coloured(report(finding(), finding("AS203"), finding("AS401")))
    assert "\x1b[1;31merror" in shown
    assert "\x1b[1;33mwarning" in shown
    assert "\x1b[1;36mnote" in shown
    assert "\x1b[1;32mno fault found" in coloured(report())
    assert "\x1b[1;33mno attention seen" in coloured(report(calls=0))


def test_brackets_are_no_markup() -> None:
    made = report(finding(message="rows [bold] are [/red] odd", fix="x[0]"))
    assert "  rows [bold] are [/red] odd" in drawn(made)
    assert "rows [bold] are [/red] odd" in coloured(made)
