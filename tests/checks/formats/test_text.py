"""A report as plain text, and the words that every drawing of it shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnscope.checks import rules
from attnscope.checks.formats.text import plain
from attnscope.checks.formats.wording import card, counted, first_sentence
from attnscope.checks.report import Report, SkippedRule, Suppressed
from tests.checks.reports import LINE, MODEL, RULES, finding, report, source


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rules, "RULES", RULES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


# -- the whole -----------------------------------------------------------------------------------


def test_a_finding_reads_from_what_to_the_fix() -> None:
    follower = finding("AS202", message="token 3 moves")
    made = report(finding(follows=(follower,), also=("layers.1.attention",)))
    assert str(made).splitlines() == [
        "model.py",
        "",
        "error AS201 future-leak",
        "  at model.py:6, in Attention.forward, layers.0.attention, call 0",
        "    5 | scores = q @ k.mT",
        "  > 6 | weights = scores.softmax(-1)",
        "    7 | return weights @ v",
        "",
        "  token 3 moves by 0.41 when token 7 changes, rounding explains 1e-07",
        "    largest change  0.41",
        "    changed         7, 8, 9",
        "",
        "  why: Why future-leak matters.",
        "  fix: pass is_causal=True",
        "  also in: layers.1.attention",
        "  follows from it: AS202 padding-leak (model.py:6): token 3 moves",
        "",
        "1 error; 5 rules run, 1 skipped (report.rules_skipped says why)",
    ]


LONG = "a word " * 60


@pytest.mark.parametrize(
    "made",
    [
        report(finding(message=LONG, fix=LONG, evidence={"name": LONG, "n" * 40: LONG})),
        report(finding("AS401", message=LONG)),
        report(finding(follows=(finding(message=LONG),), also=("layers." * 20,) * 9)),
        report(finding(source=source("gone.py", 3, code="x = " + "y + " * 60))),
        report(rules_skipped=(SkippedRule("AS202", LONG),), notes=(LONG,)),
        report(suppressed=(Suppressed(finding(), "comment", LONG),)),
    ],
    ids=["texts", "note", "places", "code", "skipped", "silenced"],
)
def test_no_line_is_longer_than_100_columns(made: Report) -> None:
    lines = plain(made, verbose=True).splitlines()
    assert max(map(len, lines)) <= 100
    assert len(plain(made).splitlines()) >= 3


def test_a_note_is_brief_until_all_is_asked_for() -> None:
    made = report(finding("AS401", also=("layers.1", "layers.2")))
    assert "note AS401 dead-head, model.py:6 and 2 more: token 3 moves" in str(made)
    assert "fix: pass is_causal=True" not in str(made)
    assert "fix: pass is_causal=True" in plain(made, verbose=True)


def test_all_that_was_left_out_is_told_to_those_who_ask() -> None:
    made = report(
        suppressed=(Suppressed(finding(), "comment", "it is meant"),),
        notes=("taken as batch axis: 0",),
    )
    lines = plain(made, verbose=True).splitlines()
    assert "silenced AS201 future-leak, model.py:6, by comment: it is meant" in lines
    assert "skipped AS404: no row is long enough" in lines
    assert "remark: taken as batch axis: 0" in lines
    assert not any(line.startswith(("silenced", "skipped")) for line in str(made).splitlines())


def test_many_remarks_are_cut_until_all_are_asked_for() -> None:
    made = report(notes=tuple(f"remark number {n}" for n in range(6)))
    assert str(made).count("remark number") == 3
    assert "… 3 more remarks" in str(made)
    assert plain(made, verbose=True).count("remark number") == 6


# -- the last line -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (report(), "no fault found: 5 rules over 6 calls; 1 skipped (it says why)"),
        (
            report(calls=0, rules_skipped=()),
            "no attention seen, no fault found: 5 rules over 0 calls",
        ),
        (
            report(finding("AS401"), finding("AS404"), rules_skipped=()),
            "no fault found, 2 notes: 5 rules over 6 calls",
        ),
        (
            report(finding(), finding("AS102"), finding("AS203"), finding("AS401")),
            "2 errors, 1 warning, 1 note; 5 rules run, 1 skipped (it says why)",
        ),
        (
            report(suppressed=(Suppressed(finding(), "comment", "meant"),) * 2, rules_skipped=()),
            "no fault found: 5 rules over 6 calls; 2 silenced: 2 by comment",
        ),
        (
            report(rules_skipped=(SkippedRule("AS201", "not on everything"),)),
            "no fault found: 5 rules over 6 calls (it says why)",
        ),
    ],
    ids=["sound", "nothing-seen", "notes", "faults", "silenced", "in-part"],
)
def test_the_last_line_counts(made: Report, said: str) -> None:
    assert counted(made, "it says why") == said


# -- the parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.000123456, "0.0001235"),
        (1.5e-9, "1.5e-09"),
        (float("nan"), "NaN"),
        (float("-inf"), "-∞"),
        (True, "yes"),
        (3, "3"),
        (None, "none"),
        ([], "none"),
        ([0, 2], "0, 2"),
        (list(range(20)), "0, 1, 2, 3, 4, 5, 6, 7, … (12 more)"),
        ({"head_dim": 8, "scale": 0.5}, "head dim 8, scale 0.5"),
        ("two\n lines", "two lines"),
    ],
)
def test_evidence_is_short(value: Any, text: str) -> None:
    assert card(finding(evidence={"a_name": value})).evidence == (("a name", text),)


def test_the_line_is_shown_between_its_neighbours_without_their_indentation(here: Path) -> None:
    lines = card(finding(source=source(here / "model.py"))).code
    assert [(line.number, line.at_fault) for line in lines] == [(5, False), (6, True), (7, False)]
    assert lines[1].text == "weights = scores.softmax(-1)"


def test_relative_indentation_is_kept_and_blank_edges_left_out(here: Path) -> None:
    (here / "model.py").write_text("\nif x:\n    weights = scores.softmax(-1)\n\n")
    lines = card(finding(source=source(line=3))).code
    assert [line.text for line in lines] == ["if x:", "    weights = scores.softmax(-1)"]


def test_a_file_that_changed_since_is_not_shown_beside_the_line(here: Path) -> None:
    (here / "model.py").write_text("# a line more\n" + MODEL)
    (line,) = card(finding()).code
    assert (line.number, line.text) == (LINE, "weights = scores.softmax(-1)")


def test_a_finding_without_a_line_is_placed_by_its_module() -> None:
    shown = card(finding(source=None))
    assert (shown.place, shown.where, shown.code) == ("layers.0.attention", "call 0", ())
    assert card(finding(source=None, module="", call=None)).place == "the model itself"
    assert card(finding(source=source("<unknown>", 0))).place == "layers.0.attention"


def test_a_library_is_named_from_its_package() -> None:
    place = card(finding(source=source("/opt/lib/site-packages/pack/model.py"))).place
    assert place == "pack/model.py:6"


def test_further_places_are_named_or_counted() -> None:
    few, many = tuple("abc"), tuple("abcdefgh")
    assert card(finding(also=few)).also == "a, b, c"
    assert card(finding(also=many)).also == "a … (7 more)"
    assert card(finding(also=("",))).also == "the model itself"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One."),
        ("It has a scale, e.g. this one. Two.", "It has a scale, e.g. this one."),
        ("Over\n  two lines! Then `code`.", "Over two lines!"),
        ("Factor 1.5 is kept", "Factor 1.5 is kept"),
    ],
)
def test_the_first_sentence_ends_where_the_next_begins(text: str, first: str) -> None:
    assert first_sentence(text) == first
