"""`attnscope explain CODE`: the page of one rule, and what is said where there is none.

Both `rules` and `explain` start without torch; fresh processes show it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from attnscope.checks import rules
from attnscope.checks.rules import RULES
from attnscope.cli.explain import nearest
from tests.checks.rules.by_hand import BY_HAND, LEAK

Runner = Callable[..., Any]

HEAVY = frozenset({"matplotlib", "numpy", "torch", "transformers"})


@pytest.fixture
def _rules_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", BY_HAND)


@pytest.mark.usefixtures("_rules_by_hand")
class TestByHand:
    @pytest.mark.parametrize("asked", ["AS201", "as201", "future-leak", "Future-Leak"])
    def test_a_rule_is_found_by_code_and_by_name(self, attnscope: Runner, asked: str) -> None:
        done = attnscope("explain", asked)
        assert (done.status, done.err) == (0, "")
        assert done.out.startswith("AS201 future-leak  error\n")
        assert LEAK.why in done.out

    def test_json_is_all_of_standard_output(self, attnscope: Runner) -> None:
        done = attnscope("explain", "AS201", "--format", "json")
        data = json.loads(done.out)
        assert (done.status, data["schema"]) == (0, "attnscope.rule/1")
        assert (data["code"], data["name"], data["severity"]) == ("AS201", "future-leak", "error")
        assert data["bad"] == "import torch\n\nmodel = torch.nn.Identity()"
        assert data["explains"] == ["AS202", "AS999"]
        assert set(data) == {
            "schema", "code", "name", "severity", "what", "why", "proof", "fix", "bad", "good",
            "limits", "explains", "sources",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("asked", "suggested"),
        [
            ("AS210", "AS201 future-leak"),
            ("AS2O1", "AS201 future-leak"),
            ("future-leek", "AS201 future-leak"),
            ("padding", "AS202 padding-leak"),
            ("leak", "AS201 future-leak or AS202 padding-leak"),
            ("empty_rows", "AS203 empty-row"),
            ("AS499", "AS404 sink-head"),
        ],
    )
    def test_an_unknown_code_is_refused_with_what_was_perhaps_meant(
        self, attnscope: Runner, asked: str, suggested: str
    ) -> None:
        done = attnscope("explain", asked)
        assert (done.status, done.out) == (2, "")
        assert done.err.count("\n") == 1
        assert f"explaining {asked}: there is no such rule; did you mean " in done.err
        assert suggested in done.err
        assert "`attnscope rules` lists them all" in done.err

    @pytest.mark.parametrize("asked", ["xyz", "", "  ", "12345678901234567890", "²"])
    def test_where_nothing_is_near_nothing_is_suggested(
        self, attnscope: Runner, asked: str
    ) -> None:
        done = attnscope("explain", asked)
        assert done.status == 2
        assert "did you mean" not in done.err
        assert nearest(asked) == ()

    def test_at_most_five_are_suggested(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rules, "RULES", BY_HAND * 3)
        assert len(nearest("AS2")) <= 5


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_that_there_is_can_be_explained(attnscope: Runner, rule: Any) -> None:
    done = attnscope("explain", rule.name)
    assert done.status == 0
    assert done.out.startswith(f"{rule.code} {rule.name}  {rule.severity}\n")


def loaded_by(*words: str, first: str = "") -> set[str]:
    """Return which of the heavy packages a fresh process has loaded after a command."""
    code = f"""
import sys
{first}
from attnscope.cli import run
status = run({list(words)!r})
print("\\nloaded", status, *{{*{sorted(HEAVY)}}} & {{*sys.modules}})
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    marker, status, *names = done.stdout.splitlines()[-1].split()
    assert (marker, status) == ("loaded", "2" if "nothing-like-it" in words else "0")
    return set(names)


CALLS = [
    ("rules",),
    ("rules", "--format", "json"),
    ("explain", "nothing-like-it"),
    *(
        [("explain", RULES[0].code), ("explain", RULES[0].name, "--format", "json")]
        if RULES
        else []
    ),
]


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_rules_and_explain_start_without_torch(words: tuple[str, ...]) -> None:
    assert loaded_by(*words) == set()


def test_a_heavy_import_would_be_noticed() -> None:
    assert loaded_by("rules", first="import torch") >= {"torch"}
