"""The pytest plugin of attnscope: the fixture `attnscope_check`, and a watch over batteries.

It lies outside the package, and imports attnscope only in tests that use it: pytest loads a plugin
before the hooks that check the annotations of a package are in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from attnscope.checks.report import Report


@pytest.fixture
def attnscope_check() -> Callable[..., Report]:
    """Check a model; the test fails with the report as its text where something is wrong.

    Called as `attnscope_check(model, inputs, expect=…, select=…, ignore=…, allow={code: reason})`;
    returns the report. See `attnscope.testing.checked`.
    """
    from attnscope.testing import checked

    return checked


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Fail a test of a battery that never called its rule: it would pass whatever is wrong."""
    testing = sys.modules.get("attnscope.testing")
    given: dict[str, Any] = getattr(getattr(pyfuncitem, "callspec", None), "params", {})
    rules = [value for value in given.values() if testing and isinstance(value, testing.RuleTest)]
    for rule in rules:
        rule.asked = False
    result = yield
    if any(not rule.asked for rule in rules):
        pytest.fail("the test never calls rule(), so it can't fail: call it", pytrace=False)
    return result
