"""The engine and the table of rules, replaced by what tests make by hand."""

from __future__ import annotations

import sys

import pytest

from attnscope.checks import rules
from tests.checks.rules.by_hand import BY_HAND
from tests.testing.standin import Engine


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Put a stand-in into the place of the engine, and rules by hand into the table."""
    made = Engine()
    monkeypatch.setattr(rules, "RULES", BY_HAND)
    monkeypatch.setitem(sys.modules, "attnscope.checks.entry", made)
    return made
