"""Every style of the corpus is seen as what it is, and what only looks like attention is not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from attnscope.calls.tolerance import largest_relative
from tests.capture.style_runs import NAMES, looked, seen, trained
from tests.styles import LOOKALIKES, STYLES, WILD, WILD_LOOKALIKES, LookAlike, Style

EVERY = (*STYLES, *WILD)
EVERY_ALIKE = (*LOOKALIKES, *WILD_LOOKALIKES)

ASPECTS = "calls sizes replay scale mask bias normaliser around tensors recipe sheet quiet".split()
ALL = " ".join(ASPECTS[:-1])

DEFECTS: dict[str, tuple[str, str]] = {
    "einsum-then-sum": (
        ALL,
        "a sum whose products came from an einsum that sums nothing is no contraction yet",
    ),
    "einsum-dense-general-fused-output": (
        ALL,
        "an einsum of three operands is not split into the product with v and what follows",
    ),
    "grouped-indexed": (
        "sizes tensors",
        "kv heads picked by an index tensor count as heads of their own",
    ),
    "sparsemax-by-hand": (
        "normaliser recipe",
        "read as the ReLU of scores, the threshold is left out",
    ),
    "entmax-by-bisection": (
        "scale normaliser around recipe",
        "read as a ReLU inside of the normaliser",
    ),
    "dropout-by-hand": ("around", "a random mask times the weights is not known as dropout"),
    "online-merged-by-logsumexp": (
        "calls normaliser",
        "the softmax over the chunks' sums and the axis of a chunk of one key are not named",
    ),
    "keys-in-two-parts": (
        "bias",
        "one softmax over two products: each part takes the other for sinks",
    ),
    "mean-of-products": (ALL, "a mean over the features is not taken for a sum of products"),
    "distance-by-cdist": (ALL, "a distance holds a product of q and k, and is not looked into"),
    "gaussian-kernel": (ALL, "squares of differences hold a product of q and k"),
    "softmax-special": (ALL, "torch.special.softmax has another name than the others"),
    "softmin-of-negative": (
        "calls scale normaliser recipe",
        "a softmin is not read as the softmax of negative scores",
    ),
    "softmax-base-two": (
        "scale normaliser around recipe",
        "powers of two are not read as exponentials",
    ),
    "softmax-twice": ("around", "the inner softmax is also called an overwritten score"),
    "mask-times-exponentials": (
        "mask normaliser around tensors recipe sheet",
        "exponentials times a mask over their sum are not read as a masked softmax",
    ),
    "weights-copied-back": ("around", "a copy of whole weights counts as a change of them"),
    "complex-products": ("recipe quiet", "complex products are probed with real numbers"),
    "port-keras-letters": (
        "scale tensors",
        "what is done to a projection by einsum is part of q, a scale too",
    ),
    "head-modules-stacked": (
        "sizes tensors recipe sheet",
        "stacked heads in front of the batch are taken for it",
    ),
    "mapped-by-vmap": (
        "sizes replay scale around tensors recipe sheet",
        "tensors inside of vmap are not kept",
    ),
    "buffer-filled-by-head": (
        "sizes scale normaliser around tensors recipe sheet",
        "of scores put together from several products the first alone is taken",
    ),
    "scores-stacked-by-head": (
        "sizes scale normaliser around tensors recipe sheet",
        "of scores put together from several products the first alone is taken",
    ),
    "top-three-scattered": (
        "scale mask normaliser around tensors recipe sheet",
        "axes are lost where scores are picked and scattered",
    ),
    "top-three-gathered": (
        "scale mask normaliser around tensors recipe sheet",
        "values gathered for each query are not followed to their keys",
    ),
    "neighbours-by-rolling": (ALL, "scores stacked from sums of products are not one product"),
    "edges-scatter": ("other", "products summed along edges pass unnamed"),
    "sparse-matrix": ("other", "sparse tensors are not followed, and nothing says so"),
    "random-features": ("other", "products without a softmax between them pass unnamed"),
    "orthogonalise": ("other", "a matrix times its own products is taken for linear attention"),
    "router-dispatch-combine": ("other", "a maximum with its index is not known as a choice"),
}
"""What is not seen as it should be: name to the tests that fail, and why."""

GRADIENTS = (
    "at-operator torch-matmul multiply-and-sum transposed-result keys-first lambda "
    "fused-all-arguments einsum-odd-letters einsum-keys-before-queries einsum-scores-heads-last "
    "einsum-tokens-last fold-batch-outer-bmm fused-qkv-head-by-head tokens-before-heads-matmul "
    "mask-tril-buffer padding-additive-lowest window-both-sides scale-on-query "
    "scale-on-both-fourth-root scale-baddbmm-alpha softcap-three-steps softmax-minus-max "
    "position-alibi-distance rotary-partial-interleaved shifted-windows blocks-look-back "
    "grouped-repeat-interleave grouped-as-queries grouped-tiled shared-head-einsum "
    "cross-attention-keyword sink-column-learned"
).split()


def every_style(aspect: str, names: Iterable[str] | None = None) -> pytest.MarkDecorator:
    """All styles, or those named; what is known to fail in this aspect has to fail."""
    chosen = [style for style in EVERY if names is None or style.name in names]
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


@every_style("output")
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
        assert error == 0.0 if style.kind == "eager" else error <= it.tolerance


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
