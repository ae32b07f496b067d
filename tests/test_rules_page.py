"""docs/rules.md says of every rule what its own file says.

When a rule changes, `python docs/make_rules.py` writes the page anew.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from attnscope.checks.rule import Rule
from attnscope.checks.rules import RULES
from docs.make_rules import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python docs/make_rules.py"


def test_a_rule_that_changed_or_is_missing_would_be_noticed() -> None:
    written = PAGE.read_text(encoding="utf-8")
    changed = replace(RULES[0], why=f"{RULES[0].why} And more.")
    assert page([changed, *RULES[1:]]) != written
    assert page(RULES[1:]) != written


def test_every_link_of_the_page_leads_to_a_heading_of_it() -> None:
    written = page()
    headings = re.findall(r"^#+ (.+)$", written, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}
    links = set(re.findall(r"\]\(#([^)]+)\)", written))
    assert len(links) >= len(RULES)
    assert links <= anchors


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_has_a_row_and_a_section(rule: Rule) -> None:
    written, code, name = page(), rule.code, rule.name
    assert written.count(f"\n## {code} {name}\n") == 1
    assert written.count(f"\n| [{code}](#{code.lower()}-{name}) | ") == 1
