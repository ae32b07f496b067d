"""Rules are chosen by code, by the beginning of one, or by name."""

from __future__ import annotations

import pytest

from attnscope.checks.selecting import matching, selected
from attnscope.errors import InputError
from tests.checks.rules.by_hand import BY_HAND


@pytest.mark.parametrize(
    ("select", "ignore", "codes"),
    [
        ([], [], "AS201 AS202 AS203 AS404"),
        (["AS2"], [], "AS201 AS202 AS203"),
        (["as201", " AS404 "], [], "AS201 AS404"),
        (["future-leak"], [], "AS201"),
        ("AS201", [], "AS201"),
        (["AS2"], ["AS203"], "AS201 AS202"),
        ([], ["AS2"], "AS404"),
        (["AS201"], ["AS"], ""),
    ],
)
def test_chosen(select: list[str], ignore: list[str], codes: str) -> None:
    assert [rule.code for rule in selected(BY_HAND, select, ignore)] == codes.split()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("AS299", "did you mean AS20"),
        ("futur-leak", "did you mean future-leak"),
        ("xyzzy", "see attnscope rules"),
        ("", "there is no rule"),
    ],
)
def test_a_word_that_names_no_rule_is_refused_with_what_is_close(word: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        matching(BY_HAND, [word], "selecting rules")
