"""Writes docs/rules.md from the table of rules.

    python docs/make_rules.py

Every word of a rule's page is written in its own file; `attnscope explain` and SARIF show the
same. ``tests/test_rules_page.py`` fails when the page and the rules differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnscope.checks.rule import Rule
from attnscope.checks.rules import RULES
from attnscope.show.rulepage import markdown, markdown_table

PAGE = Path(__file__).parent / "rules.md"

_HEAD = """# Rules

<!-- Made by docs/make_rules.py: change the rules, not this page. -->

What `attnscope check` looks for, {count}. An **error** or a **warning** makes it exit with 1, a
**note** does not: it tells of what is unusual, and may well be meant. The severity below is the
usual one; a finding whose evidence is weaker has a milder one. `attnscope explain CODE` shows the
same in a terminal; [the checklist](checklist.md) maps five questions that people ask by hand to
these codes.

`--select` and `--ignore` take codes (`AS201`), beginnings of codes (`AS2`) and names
(`future-leak`).
"""


def page(rules: Sequence[Rule] = RULES) -> str:
    """Return the page: one table, then one section a rule."""
    count = f"{len(rules)} kinds of fault" if len(rules) != 1 else "1 kind of fault"
    parts = [_HEAD.format(count=count), markdown_table(rules), *map(markdown, rules)]
    return "\n".join(parts)


def main() -> None:
    """Write the page, and say so."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {len(RULES)} rules into docs/rules.md")


if __name__ == "__main__":
    main()
