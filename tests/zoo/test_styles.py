"""The hand-written attentions of the style corpus: a check has nothing to say of the sound ones."""

from __future__ import annotations

import warnings

import pytest

from attnscope.checks.entry import check
from tests.styles import STYLES, WILD, Style

FAULTY = {
    "dropout-by-hand": "AS701",
    "grouped-tiled": "AS104",
    "mask-after-softmax": "AS204",
    "out-arguments-no-grad": "AS902",
    "softmax-over-heads": "AS101",
    "softmax-over-its-input": "AS902",
    "softmax-over-queries": "AS101",
    "softmax-twice": "AS101",
}
"""Styles that are what a rule speaks of: they show how an attention may be read, right or not."""


@pytest.mark.parametrize("style", [*STYLES, *WILD], ids=lambda style: style.name)
def test_nothing_is_wrong_with_it(style: Style) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the author's code warns of is not at stake
        report = check(style.build(), style.inputs(), name=style.name)
    told = {finding.code: finding.message for finding in report.findings if finding.counts}
    assert list(told) == ([FAULTY[style.name]] if style.name in FAULTY else []), told
    assert [each for each in report.rules_skipped if each.failed] == []
