"""The corpus itself: its modules run, and what it says about them is so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from . import LOOKALIKES, STYLES, WILD, WILD_LOOKALIKES
from .truth import LookAlike, Style, Truth, raw_scores, widen

EXPECTED = {
    "nothing",
    "linear-attention",
    "router",
    "gate",
    "similarity",
    "pooling",
    "additive",
    "classifier",
    "loss",
    "named",
}
MASKS = {
    "none",
    "causal",
    "causal-bottom-right",
    "padding",
    "window",
    "documents",
    "prefix",
    "custom",
}
NORMALISERS = {
    "softmax",
    "softmax-off-by-one",
    "sigmoid",
    "relu",
    "relu-squared",
    "relu-normalised",
    "sparsemax",
    "entmax",
    "exp",
    "unknown",
}

ALL = (*STYLES, *WILD)
ALL_ALIKE = (*LOOKALIKES, *WILD_LOOKALIKES)
every_style = pytest.mark.parametrize("style", ALL, ids=lambda style: style.name)
every_lookalike = pytest.mark.parametrize("alike", ALL_ALIKE, ids=lambda alike: alike.name)


def run(module: nn.Module, inputs: Any) -> Any:
    torch.manual_seed(2)
    return module(**inputs) if isinstance(inputs, dict) else module(*inputs)


def first(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


def tell(style: Style) -> Truth:
    assert style.truth is not None
    with torch.no_grad():
        return style.truth(style.build(), style.inputs())


def is_plain(style: Style) -> bool:
    """Whether scale, cap, bias, mask and a softmax over the keys make the weights."""
    softmax = style.normaliser == "softmax" and style.normaliser_axis == "keys"
    return softmax and not style.sinks and not style.before


def plain_weights(style: Style, truth: Truth) -> torch.Tensor:
    assert truth.q is not None
    assert truth.k is not None
    scores = raw_scores(truth.q, truth.k, tiled=style.expansion == "repeat") * truth.scale
    if style.softcap is not None:
        scores = style.softcap * torch.tanh(scores / style.softcap)
    if truth.bias is not None:
        scores = scores + truth.bias
    if truth.visible is not None:
        scores = scores.masked_fill(~truth.visible, float("-inf"))
    return scores.softmax(-1)


def wide(style: Style, v: torch.Tensor) -> torch.Tensor:
    """Values as the heads of the context meet them."""
    return widen(v, style.value_heads or style.heads, tiled=style.expansion == "repeat")


def with_truth(*, output: bool = False) -> pytest.MarkDecorator:
    styles = [s for s in ALL if s.truth and (s.output or not output)]
    return pytest.mark.parametrize("style", styles, ids=lambda style: style.name)


def test_corpus_is_large_and_names_are_unique() -> None:
    names = [style.name for style in ALL] + [alike.name for alike in ALL_ALIKE]
    assert len(names) == len(set(names))
    assert len(STYLES) >= 75
    assert len(LOOKALIKES) >= 15


@every_style
def test_words_are_known(style: Style) -> None:
    assert style.mask <= MASKS
    assert style.normaliser in NORMALISERS
    assert style.visible is None or 0 < style.visible <= 1
    assert style.heads % style.kv_heads == 0
    if style.mask == {"none"}:
        assert style.visible == 1.0


@every_style
def test_module_runs_the_same_twice(style: Style) -> None:
    one = first(run(style.build(), style.inputs()))
    two = first(run(style.build(), style.inputs()))
    assert torch.isfinite(one).all()
    assert torch.equal(one, two)


@with_truth()
def test_sizes(style: Style) -> None:
    truth = tell(style)
    rows = (style.batch, style.heads, style.queries)
    assert truth.weights.shape == (*rows, style.keys)
    value_heads = style.value_heads or style.heads
    if truth.context is not None:
        assert truth.context.shape == (style.batch, value_heads, style.queries, style.value_dim)
    if truth.q is not None:
        assert truth.q.shape == (*rows, style.head_dim)
    if truth.k is not None:
        assert truth.k.shape == (style.batch, style.kv_heads, style.keys, style.head_dim)
    if truth.v is not None:
        value_heads = style.value_heads or style.kv_heads
        assert truth.v.shape == (style.batch, value_heads, style.keys, style.value_dim)


@with_truth()
def test_context_is_weights_times_values(style: Style) -> None:
    truth = tell(style)
    if truth.context is None or truth.v is None:
        return
    applied = truth.weights if truth.applied is None else truth.applied
    context = applied @ wide(style, truth.v).to(applied.dtype)
    torch.testing.assert_close(truth.context, context, rtol=1e-4, atol=1e-5, check_dtype=False)


@with_truth()
def test_visible_share(style: Style) -> None:
    truth = tell(style)
    if style.visible is None:
        return
    if truth.visible is None:
        assert style.visible == 1.0
        return
    share = truth.visible.expand(truth.weights.shape).float().mean().item()
    assert share == pytest.approx(style.visible, abs=1e-6)


@with_truth()
def test_recipe_gives_the_weights(style: Style) -> None:
    truth = tell(style)
    if not is_plain(style) or truth.q is None:
        return
    if style.scale is not None:
        assert torch.as_tensor(truth.scale).item() == pytest.approx(style.scale)
    assert (truth.bias is not None) == style.bias
    assert (truth.visible is not None) == (style.mask != {"none"})
    torch.testing.assert_close(
        plain_weights(style, truth),
        truth.weights,
        rtol=1e-4,
        atol=1e-5,
        check_dtype=False,
        equal_nan=True,
    )


@with_truth(output=True)
def test_output_follows_from_the_context(style: Style) -> None:
    module = style.build()
    with torch.no_grad():
        actual = first(run(module, style.inputs()))
    truth = tell(style)
    assert style.output is not None
    with torch.no_grad():
        expected = style.output(style.build(), truth)
    torch.testing.assert_close(
        actual, expected, rtol=style.tolerance, atol=style.tolerance, check_dtype=False
    )


@with_truth(output=True)
def test_another_scale_would_be_noticed(style: Style) -> None:
    truth = tell(style)
    if not is_plain(style) or style.after or truth.q is None or truth.k is None or truth.v is None:
        return
    weights = plain_weights(style, replace(truth, scale=truth.scale * 1.2))
    other = replace(truth, context=weights @ wide(style, truth.v))
    assert style.output is not None
    with torch.no_grad():
        right = style.output(style.build(), truth)
        wrong = style.output(style.build(), other)
    assert (right - wrong).abs().max() > 3 * style.tolerance


@every_lookalike
def test_lookalike_runs_the_same_twice(alike: LookAlike) -> None:
    one = first(run(alike.build(), alike.inputs()))
    two = first(run(alike.build(), alike.inputs()))
    assert alike.expect in EXPECTED
    assert alike.why
    assert torch.equal(one, two)
