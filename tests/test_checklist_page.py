"""docs/checklist.md holds: its codes are rules, and the article passes its five points."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

import attnscope
from attnscope.calls import Call
from examples import article_attention as article
from tests.checks.rules.catalogue import CATALOGUE

TEXT = (Path(__file__).parents[1] / "docs" / "checklist.md").read_text(encoding="utf-8")

NAMES = {code: name for code, name, _ in CATALOGUE}

CODES = re.findall(r"\b(AS\d{3})(?: ([a-z]+(?:-[a-z]+)*))?", TEXT)


def test_every_code_of_the_page_has_its_own_name() -> None:
    named = [(code, name) for code, name in CODES if (code, name) in NAMES.items()]
    assert len(named) > len(CODES) - 3  # "AS301 is an error" names a code alone
    assert {code for code, _ in CODES} <= set(NAMES)


def test_the_page_leaves_out_no_code() -> None:
    assert sorted({code for code, _ in CODES}) == sorted(NAMES)


@pytest.fixture(scope="module")
def call() -> Call:
    """Return the attention call of the article's listing."""
    return attnscope.trace(article.model(), article.inputs())[0]


def test_the_listing_passes_the_first_point_its_scale(call: Call) -> None:
    assert call.recipe.scale == pytest.approx(1 / math.sqrt(call.head_dim))


def test_the_listing_passes_the_second_point_its_mask_stands_before_the_softmax() -> None:
    keep = torch.ones(article.BATCH, article.BATCH, dtype=torch.long).tril()
    masked = attnscope.trace(article.model(), article.inputs(), mask=keep)[0]
    weights = masked.weights()
    assert torch.equal(weights[..., 0, 1:], torch.zeros_like(weights[..., 0, 1:]))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_the_listing_passes_the_third_point_its_weights_sum_to_one(call: Call) -> None:
    sums = call.weights().sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_the_listing_passes_the_fourth_and_fifth_point_its_widths(call: Call) -> None:
    assert call.q.shape[-1] == call.k.shape[-1] == call.head_dim
    assert call.heads * call.value_dim == article.model().to_output.in_features


def test_and_it_attends_over_the_samples_of_the_batch(call: Call) -> None:
    assert (call.queries, call.keys) == (article.BATCH, article.BATCH)
    report = attnscope.check(article.model(), article.inputs(), expect=article.expect)
    assert [each.code for each in report.findings if each.severity == "error"] == ["AS102"]
    source = report.findings[0].source
    assert source is not None
    assert "transpose(1, 2)" in source.code
