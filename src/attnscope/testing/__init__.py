"""Checks as tests: a battery with one test item a rule, and one check that has to pass.

A battery runs the same engine as `attnscope check`, once, when its first item is run. Each item
passes, fails, is skipped with the report's reason, or is expected to fail with a reason of your
own. This package can be imported without pytest and without torch, and needs both when it is used.
"""

from __future__ import annotations

from attnscope.testing.batteries import battery
from attnscope.testing.items import RuleTest
from attnscope.testing.one_check import checked

__all__ = ["RuleTest", "battery", "checked"]
