"""A battery: one test item a rule, over one check of a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attnscope.errors import InputError
from attnscope.testing.asked import (
    Reasons,
    need_pytest,
    project_settings,
    reasons_by_code,
    wanted_rules,
)
from attnscope.testing.items import RuleTest, Shared
from attnscope.testing.running import Asked, Target

if TYPE_CHECKING:
    import pytest

__all__ = ["battery"]

_DOING = "making a battery"


def battery(
    target: Target,
    *,
    inputs: Any = None,
    expect: Mapping[str, Any] | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    expected_failures: Reasons | None = None,
    seed: int = 0,
) -> pytest.MarkDecorator:
    """Return a mark that makes one test item a rule of a test with the argument `rule`.

    The target is built and checked when the first item runs, not while tests are collected; all
    items of a battery share that report. Comments in the code and `[tool.attnscope]` hold as for
    `attnscope check`: what a comment, a file's entry or the baseline silences is an expected
    failure, what the project ignores is skipped, each with its reason.

    Args:
        target: a module; a class or a function without required arguments that makes one; a
            function to check; or a TARGET of the command line, seen from the working directory.
        inputs: a dict (keyword arguments), a tuple (positional ones), a tensor, a function that
            returns one, or "file.py:name"; None: they are made, where they can be.
        expect: what the author intends, e.g. {"causal": True}.
        select: codes, beginnings of codes or names of the rules to run; none: all.
        ignore: the same for rules that get no item.
        expected_failures: by code or name, the reason why an item is expected to fail. When it
            passes, that is a failure, so that the entry goes once the fault is mended.
        seed: of what building the target, and the check, draw at random.

    Raises:
        InputError: there is no rule of a code or name, none is left, or an expected failure
            has no reason or no item.
        MissingExtraError: pytest is not installed.

    Example:
        >>> import attnscope.testing
        >>> from torch import nn
        >>> @attnscope.testing.battery(lambda: nn.MultiheadAttention(16, 4, batch_first=True))
        ... def test_attention(rule):
        ...     rule()
    """
    pytest = need_pytest(_DOING)
    ignored = tuple(ignore)
    settings = project_settings(target, select, ignored)
    rules = wanted_rules(settings, ignored, _DOING)
    reasons = reasons_by_code(expected_failures, _DOING)
    homeless = sorted(set(reasons) - {rule.code for rule in rules})
    if homeless:
        raise InputError(
            _DOING,
            f"{homeless[0]} is expected to fail, and is not among the selected rules",
            "select it, or take it out of expected_failures",
        )
    shared = Shared(Asked(target, inputs, expect, settings, seed))
    items = []
    for rule in rules:
        reason = reasons.get(rule.code)
        expected = pytest.mark.xfail(strict=True, reason=reason, raises=pytest.fail.Exception)
        items.append(
            pytest.param(
                RuleTest(rule, shared, expected=reason is not None),
                id=f"{rule.code}-{rule.name}",
                marks=() if reason is None else expected,
            )
        )
    return pytest.mark.parametrize("rule", items)  # type: ignore[no-any-return]
