"""The sound hand-written attentions of the style corpus: a check has nothing to say of them."""

from __future__ import annotations

import warnings

import pytest

from attnscope.checks.entry import check
from tests.styles import STYLES, Style


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_nothing_is_wrong_with_it(style: Style) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the author's code warns of is not at stake
        report = check(style.build(), style.inputs(), name=style.name)
    assert [f"{f.code} {f.message}" for f in report.findings if f.counts] == []
    assert [each for each in report.rules_skipped if each.failed] == []
