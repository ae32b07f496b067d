"""Every style of the corpus is seen as what it is, and what only looks like attention is not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnscope.calls.tolerance import largest_relative
from tests.capture.style_runs import NAMES, looked, seen, trained
from tests.styles import LOOKALIKES, STYLES, WILD, WILD_LOOKALIKES, LookAlike, Style

MAPPED = "mapped-by-vmap"
"""The one style that makes no call: under vmap every tensor has hidden axes."""
EVERY = (*STYLES, *WILD)
READ = frozenset(style.name for style in EVERY) - {MAPPED}
EVERY_ALIKE = (*LOOKALIKES, *WILD_LOOKALIKES)

ASPECTS = "calls sizes replay scale mask bias normaliser around tensors recipe sheet quiet".split()
ALL = " ".join(ASPECTS[:-1])

DEFECTS: dict[str, tuple[str, str]] = {
    "entmax-by-bisection": (
        "scale normaliser around recipe",
        "shown as a relu of scores that are unknown, without a scale",
    ),
    "dropout-by-hand": (
        "around",
        "a random mask times the weights is shown as (mask, divide) after them, dropout as 0",
    ),
    "online-merged-by-logsumexp": (
        "calls",
        "one call a chunk, the softmax that merges them is named similarity",
    ),
    "keys-in-two-parts": (
        "bias",
        "one softmax over two products is shown as two calls, each with the other's keys as sinks",
    ),
    "mean-of-products": (
        ALL,
        "no call, the softmax is named pooling: a mean over the features is not taken for a sum",
    ),
    "distance-by-cdist": (
        ALL,
        "no call, the softmax is named pooling: torch.cdist is not taken for a product of q and k",
    ),
    "gaussian-kernel": (
        ALL,
        "nothing is shown: exponentials of squared differences, over their sum, hold no product",
    ),
    "softmin-of-negative": (
        "scale normaliser recipe",
        "shown as a softmin with the negative scale; recipe.weights raises",
    ),
    "softmax-base-two": (
        "scale normaliser around recipe",
        "powers of two over their sum: the normaliser is unknown, the scale is times log2(e)",
    ),
    "softmax-twice": (
        "around",
        "scores are unknown, as they are; unknown says that they are overwritten as well",
    ),
    "weights-copied-back": (
        "around",
        "a copy of whole weights into the scores is shown as a change of the weights (setitem)",
    ),
    "complex-products": (
        "recipe quiet around",
        "the real part of complex q·k: the recipe says that scores are unknown, PyTorch warns",
    ),
    "buffer-filled-by-head": (
        "sizes scale normaliser around tensors recipe sheet",
        (
            "scores written into a buffer head by head: q, k and the sizes are those of the first "
            "head; scale, mask and bias are unknown; v, weights and numbers raise ReplayError"
        ),
    ),
    "scores-stacked-by-head": (
        "sizes scale normaliser around tensors recipe sheet",
        (
            "scores stacked head by head: q, k and the sizes are those of the first head, scale, "
            "mask and bias are unknown, and v, weights and numbers raise ReplayError"
        ),
    ),
    "top-three-scattered": (
        "scale mask normaliser around tensors recipe sheet",
        (
            "scores picked by topk and scattered back: scale, mask, bias and the normaliser's axis "
            "are unknown; v, weights and numbers raise ReplayError"
        ),
    ),
    "top-three-gathered": (
        "scale mask normaliser around tensors recipe sheet",
        (
            "values gathered for the best keys of each query: scale, mask, bias and the "
            "normaliser's axis are unknown; v, weights and numbers raise ReplayError"
        ),
    ),
    "neighbours-by-rolling": (
        ALL,
        "no call, the softmax is named gate: scores are stacked from one sum for each neighbour",
    ),
    "edges-scatter": ("other", "nothing is shown: products along the edges of a graph, summed up"),
    "router-dispatch-combine": ("other", "a router that takes the maximum is named pooling"),
}
"""What is not seen as it should be: name to the tests that fail, and what a user sees instead."""

GRADIENTS = (
    "at-operator torch-matmul multiply-and-sum transposed-result keys-first lambda "
    "fused-all-arguments einsum-odd-letters einsum-keys-before-queries einsum-scores-heads-last "
    "einsum-tokens-last fold-batch-outer-bmm fused-qkv-head-by-head tokens-before-heads-matmul "
    "mask-tril-buffer padding-additive-lowest window-both-sides scale-on-query "
    "scale-on-both-fourth-root scale-baddbmm-alpha softcap-three-steps softmax-minus-max "
    "position-alibi-distance rotary-partial-interleaved shifted-windows blocks-look-back "
    "grouped-repeat-interleave grouped-as-queries grouped-tiled shared-head-einsum "
    "cross-attention-keyword sink-column-learned einsum-dense-general-fused-output "
    "einsum-scale-by-head einsum-gain-by-head einsum-output-first"
).split()


def every_style(aspect: str, names: Iterable[str] | None = None) -> pytest.MarkDecorator:
    """All styles that make calls, or those named; what is known to fail here has to fail."""
    chosen = [style for style in EVERY if style.name in (READ if names is None else names)]
    cases = []
    for style in chosen:
        aspects, reason = DEFECTS.get(style.name, ("", ""))
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if aspect in aspects.split() else []
        cases.append(pytest.param(style, id=style.name, marks=marks))
    return pytest.mark.parametrize("style", cases)


every_lookalike = pytest.mark.parametrize("alike", EVERY_ALIKE, ids=lambda alike: alike.name)


def close(actual: Tensor, expected: Tensor, tolerance: float) -> bool:
    return largest_relative(actual.double(), expected.double()) <= tolerance


def test_what_is_named_exists() -> None:
    names = {style.name for style in EVERY}
    assert set(DEFECTS) <= names | {alike.name for alike in EVERY_ALIKE}
    assert set(GRADIENTS) <= names
    assert {a for aspects, _ in DEFECTS.values() for a in aspects.split()} <= {*ASPECTS, "other"}


def test_every_defect_is_on_the_page_of_limits() -> None:
    page = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    told = set(re.findall("`([^`]+)`", page))
    assert {*DEFECTS, MAPPED} <= told
    names = {style.name for style in EVERY} | {alike.name for alike in EVERY_ALIKE}
    assert told & names <= {*DEFECTS, MAPPED}


@every_style("output", [style.name for style in EVERY])
def test_output_and_random_state_are_those_without_attnscope(style: Style) -> None:
    it = seen(style)
    assert len(it.plain) == len(it.watched) > 0
    assert all(torch.equal(a, b) for a, b in zip(it.plain, it.watched, strict=True))
    assert torch.equal(*it.random)


@every_style("calls")
def test_calls_are_seen_and_nothing_beside_them(style: Style) -> None:
    trace = seen(style).trace
    assert len(trace) in {style.calls, style.calls * style.pieces}
    assert {call.kind for call in trace} == {style.kind}
    assert not trace.unseen
    assert not trace.others


def test_attention_inside_vmap_is_named_and_not_read() -> None:
    """Its output is compared with all others'."""
    trace = seen(next(style for style in EVERY if style.name == MAPPED)).trace
    assert len(trace) == 0
    (unseen,) = trace.unseen
    assert "vmap" in unseen.reason


@every_style("sizes")
def test_sizes(style: Style) -> None:
    it = seen(style)
    for word in ("batch", "heads", "kv_heads", "queries", "head_dim", "value_dim"):
        assert getattr(it.call, word) == getattr(style, word), word
    assert sum(part.keys for part in it.parts) == style.keys


@every_style("replay")
def test_replay_is_exact(style: Style) -> None:
    it = seen(style)
    assert len(it.trace) > 0
    for call in it.trace:
        error = call.replay_error
        assert error is not None
        exact = style.kind == "eager" and style.exact
        assert error == 0.0 if exact else error <= it.tolerance


@every_style("scale")
def test_scale(style: Style) -> None:
    it = seen(style)
    scale = it.recipe.scale
    if style.unknown and scale is None:
        return
    assert scale is not None
    if style.scale is not None:
        assert isinstance(scale, float)
        assert scale == pytest.approx(style.scale, rel=it.rounding)
        return
    wanted = torch.as_tensor(it.truth.scale)
    given = torch.as_tensor(scale, dtype=wanted.dtype)
    given, wanted = torch.broadcast_tensors(given, wanted)
    assert close(given, wanted, it.rounding)


@every_style("mask")
def test_mask(style: Style) -> None:
    it = seen(style)
    mask = it.recipe.mask
    assert mask.kinds == style.mask
    if style.visible is not None:
        assert mask.visible == pytest.approx(style.visible, abs=1e-6)
    if len(it.parts) == 1:
        given = mask.dense(style.queries, style.keys)
        wanted = torch.ones((), dtype=torch.bool) if it.truth.visible is None else it.truth.visible
        given, wanted = torch.broadcast_tensors(given, wanted)
        assert torch.equal(given, wanted)


@every_style("bias")
def test_bias_and_soft_cap_and_sinks(style: Style) -> None:
    it = seen(style)
    recipe = it.recipe
    assert (recipe.bias is not None) == style.bias
    assert (recipe.sinks is not None) == style.sinks
    assert (recipe.softcap is None) == (style.softcap is None)
    if style.softcap is not None:
        assert recipe.softcap == pytest.approx(style.softcap, rel=it.rounding)


@every_style("normaliser")
def test_normaliser(style: Style) -> None:
    recipe = seen(style).recipe
    assert recipe.normaliser == style.normaliser
    assert recipe.normaliser_axis == style.normaliser_axis


@every_style("around")
def test_what_happens_to_the_weights_and_what_is_unknown(style: Style) -> None:
    recipe = seen(style).recipe
    assert recipe.dropout == pytest.approx(style.dropout)
    assert recipe.after == style.after
    assert recipe.unknown == style.unknown
    if style.expansion is not None:
        assert recipe.expansion == style.expansion


@every_style("tensors")
def test_tensors_are_the_true_ones(style: Style) -> None:
    it = seen(style)
    for name in NAMES:
        if it.has(name):
            wanted = getattr(it.truth, name)
            given = it.value(name)
            assert given.shape == wanted.shape, name
            assert close(given, wanted, it.tolerance), name


@every_style("recipe")
def test_recipe_gives_the_weights(style: Style) -> None:
    it = seen(style)
    if style.unknown or len(it.parts) > 1:
        return
    weights = it.recipe.weights(it.call.q, it.call.k, torch.float64)
    assert close(weights, it.truth.weights, it.tolerance)


@every_style("quiet")
def test_reading_warns_of_nothing(style: Style) -> None:
    assert not seen(style).warned


@every_style("sheet")
def test_shape_sheet_and_numbers(style: Style) -> None:
    it = seen(style)
    sheet = it.call.shapes()
    assert {"q", "k", "v", "weights", "context"} <= {row.name for row in sheet.rows}
    assert all(len(row.axes) == len(row.shape) for row in sheet.rows)
    numbers = it.call.numbers()
    assert len(numbers.entropy) == len(numbers.max_weight) == len(numbers.visible) == style.heads
    if it.has("weights"):
        largest = it.truth.weights.double().amax(-1).nanmean((0, 2))
        assert close(torch.tensor(numbers.max_weight), largest, it.tolerance)


@every_style("gradients", GRADIENTS)
def test_gradients_are_those_of_autograd(style: Style) -> None:
    it = seen(style)
    for name, given, wanted in trained(style):
        assert given.shape == wanted.shape, name
        assert close(given, wanted, it.tolerance), name


@every_lookalike
def test_lookalike_makes_no_call(alike: LookAlike) -> None:
    assert alike.expect == "named" or len(looked(alike)) == 0


@every_lookalike
def test_lookalike_is_named_for_what_it_is(
    alike: LookAlike, request: pytest.FixtureRequest
) -> None:
    if alike.name in DEFECTS:
        mark = pytest.mark.xfail(reason=DEFECTS[alike.name][1], strict=True)
        request.node.add_marker(mark)
    trace = looked(alike)
    roles = {other.role for other in trace.others}
    if alike.expect == "named":
        assert len(trace) > 0 or trace.unseen or trace.others
    elif alike.expect == "linear-attention":
        assert trace.unseen
    elif alike.expect == "nothing":
        assert not roles
        assert not trace.unseen
    else:
        assert roles == {alike.expect}
        assert not trace.unseen
