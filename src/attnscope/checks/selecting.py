"""Which rules are run: by code, by the beginning of a code, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from attnscope.checks.rule import Rule
from attnscope.errors import InputError

__all__ = ["matching", "selected"]


def selected(
    rules: Iterable[Rule], select: Iterable[str], ignore: Iterable[str]
) -> tuple[Rule, ...]:
    """Return the rules that `select` names (all, where it names none) and `ignore` doesn't.

    Raises:
        InputError: a word names no rule.
    """
    known = tuple(rules)
    chosen = matching(known, select, "selecting rules") or {rule.code for rule in known}
    left_out = matching(known, ignore, "ignoring rules")
    return tuple(rule for rule in known if rule.code in chosen - left_out)


def matching(rules: Iterable[Rule], words: Iterable[str], doing: str) -> set[str]:
    """Return the codes that some words name: "AS201", "AS2", "AS" or "future-leak".

    Raises:
        InputError: a word names no rule.
    """
    known = tuple(rules)
    found: set[str] = set()
    for word in [words] if isinstance(words, str) else words:
        text = word.strip()
        codes = {r.code for r in known if r.code.startswith(text.upper()) or r.name == text.lower()}
        if not codes or not text:
            names = [name for rule in known for name in (rule.code, rule.name)]
            close = difflib.get_close_matches(text, names, n=2)
            hint = f"did you mean {' or '.join(close)}?" if close else "see attnscope rules"
            raise InputError(doing, f"there is no rule {text!r}", hint)
        found |= codes
    return found
