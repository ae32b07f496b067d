"""The page of a rule, for a terminal and as Markdown, and the tables of rules."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from attnscope.checks import rules
from attnscope.show.rulepage import markdown, markdown_table, page_json, rule_page, rule_table
from tests.checks.rules.by_hand import BY_HAND, EMPTY, LEAK, made_rule


@pytest.fixture(autouse=True)
def _rules_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", BY_HAND)


def drawn(part: Any, *, columns: int = 100, colours: bool = False) -> str:
    """Return what a terminal shows."""
    out = io.StringIO()
    Console(
        file=out, width=columns, force_terminal=colours, markup=False, emoji=False, highlight=False
    ).print(part)
    return out.getvalue()


@pytest.mark.parametrize("columns", [100, 60, 40])
def test_every_part_of_a_rule_stands_on_its_page_and_fits_the_terminal(columns: int) -> None:
    shown = drawn(rule_page(LEAK), columns=columns)
    words = " ".join(shown.split())
    assert shown.startswith("AS201 future-leak  error\n")
    for text in (LEAK.what, LEAK.why, LEAK.proof, LEAK.fix, LEAK.limits):
        assert " ".join(text.split()) in words
    for title in ("why it matters", "how it is proved", "fix", "limits", "bad", "good", "sources"):
        assert f"\n{title}\n" in shown
    assert max(map(len, shown.splitlines())) <= columns


def test_what_is_too_long_for_a_terminal_is_broken_and_never_cut() -> None:
    shown = drawn(rule_page(LEAK), columns=20)
    for source in LEAK.sources:
        assert source in "".join(shown.split())
    assert "".join(LEAK.good.split()) in "".join(shown.split())


def test_programs_stand_as_they_are_written() -> None:
    shown = drawn(rule_page(LEAK))
    assert "\n  import torch\n\n  model = torch.nn.Identity()\n" in shown
    assert "\n  from torch import nn\n  model = nn.Linear(2, 2)\n" in shown


def test_no_blanks_stand_at_the_end_of_a_line_without_colours() -> None:
    shown = drawn(rule_page(LEAK), columns=36)
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []


def test_programs_are_coloured_where_colours_are_shown() -> None:
    plain, coloured = drawn(rule_page(LEAK)), drawn(rule_page(LEAK), colours=True)
    assert "\x1b[" not in plain
    assert "\x1b[94mimport\x1b[0m" in coloured.replace("49m", "m").replace(";m", "m")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == plain.split()


def test_followers_are_named_and_unknown_ones_keep_their_code() -> None:
    assert "AS202 padding-leak, AS999" in drawn(rule_page(LEAK))
    assert "[AS202 padding-leak](#as202-padding-leak), AS999." in markdown(LEAK)


def test_what_a_rule_lacks_has_no_title() -> None:
    assert "limits" not in drawn(rule_page(EMPTY))
    assert "sources" not in drawn(rule_page(EMPTY))
    for absent in ("Limits", "Sources", "Folded"):
        assert absent not in markdown(EMPTY)


def test_the_page_says_how_to_silence_the_rule() -> None:
    assert "# attnscope: ignore[AS203] " in drawn(rule_page(EMPTY))
    assert "`# attnscope: ignore[AS203] " in markdown(EMPTY)


def test_markdown_has_the_same_parts() -> None:
    text = markdown(LEAK)
    assert text.startswith("## AS201 future-leak\n\n*error*\n\n")
    assert "```python\nimport torch\n\nmodel = torch.nn.Identity()\n```" in text
    assert "- <https://arxiv.org/abs/1706.03762>\n" in text
    assert markdown(LEAK, level=3).startswith("### ")


def test_texts_are_no_markdown_and_code_in_them_is() -> None:
    text = markdown(made_rule("AS201", "x", what="Of *q*, <k> and [v] in `a * b`, d_k, _x_."))
    assert r"Of \*q\*, \<k> and \[v\] in `a * b`, d_k, \_x\_." in text


def test_a_program_with_fences_is_fenced_by_more() -> None:
    text = markdown(made_rule("AS201", "x", bad='"""\n```python\n```\n"""'))
    assert '````python\n"""\n```python\n```\n"""\n````' in text


def test_paragraphs_are_kept_and_lines_in_them_are_not() -> None:
    rule = made_rule("AS201", "x", what="One\n  line.\n\n  Two\nlines.")
    assert "\n\nOne line.\n\nTwo lines.\n\n" in markdown(rule)
    assert "\n\nOne line.\n\nTwo lines.\n\n" in drawn(rule_page(rule))
    assert page_json(rule)["what"] == "One line.\n\nTwo lines."


def test_the_table_has_a_line_a_rule_with_the_first_sentence() -> None:
    shown = drawn(rule_table(BY_HAND), columns=120)
    lines = shown.splitlines()
    assert lines[0].split()[:3] == ["code", "severity", "name"]
    assert [line.split()[:3] for line in lines[2:]] == [
        [rule.code, rule.severity, rule.name] for rule in BY_HAND
    ]
    assert "second sentence" not in shown


def test_the_table_in_markdown_has_four_cells_a_row_whatever_stands_in_them() -> None:
    head, line, *rows = markdown_table(BY_HAND).splitlines()
    assert len(rows) == len(BY_HAND)
    for row in (head, line, *rows):
        assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert rows[0].startswith("| [AS201](#as201-future-leak) | error | future-leak | ")
    assert r"`mask \| bias`" in rows[0]
