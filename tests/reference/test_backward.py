"""Attention backward: the gradients of torch's autograd, and of finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from numpy.typing import NDArray

from attnscope import reference
from attnscope.errors import InputError
from tests.reference.cases import CASES, PARTS, Case, far, in_torch, make

SIZES = {
    "batch": 2,
    "kv_heads": 2,
    "group": 2,
    "queries": 3,
    "keys": 4,
    "head_dim": 5,
    "value_dim": 3,
}
LEAVES = ("q", "k", "v", "scale", "bias", "sinks")
STEPS = ("raw_scores", "weights", "dropped_weights")
CHAINS = 4
"""A gradient goes through the roundings of the forward, and through two products more."""

STEP = 1e-5
CURVATURE = 1e-7
"""What is left of a central difference of this step: its square times the third derivative."""


def backward(case: Case, gradient: NDArray[Any], **more: Any) -> reference.AttentionGradients:
    return reference.attention_backward(
        gradient, case.q, case.k, case.v, **{**case.options, **more}
    )


def cotangent(case: Case) -> NDArray[np.float64]:
    context = reference.attention(case.q, case.k, case.v, **case.options).context
    return np.random.default_rng(1).normal(size=context.shape)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(CASES)
def test_gradients_are_those_of_autograd(case: Case) -> None:
    if case.options.get("normaliser") == "entmax":
        assume(condition=False)  # its bisection has no gradient in torch: see finite differences
    seen = in_torch(case)
    for step in STEPS:
        seen[step].retain_grad()
    gradient = cotangent(case)
    seen["context"].backward(torch.from_numpy(gradient))
    found = backward(case, gradient)
    sizes = (case.q, case.k, seen["raw_scores"].detach().numpy(), np.ones(1))
    floor = float(np.abs(found.weights).max() * max(np.abs(x).max() for x in sizes))
    for name in (*LEAVES, *STEPS):
        mine = getattr(found, name)
        if name not in seen:
            assert mine is None
            continue
        theirs = seen[name].grad
        assert theirs is not None
        assert not far(mine, theirs, case, CHAINS, floor), name


def slope(case: Case, name: str, along: NDArray[Any], gradient: NDArray[Any]) -> float:
    """Return by how much the sum of gradient · context grows along a direction of one argument."""

    def value(step: float) -> float:
        arrays: dict[str, Any] = {"q": case.q, "k": case.k, "v": case.v, **case.options}
        arrays[name] = arrays.get(name, case.q.shape[-1] ** -0.5) + step * along
        return float((reference.attention(**arrays).context * gradient).sum())

    return (value(STEP) - value(-STEP)) / (2 * STEP)


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("part", [part for part in PARTS if part != "mask with empty rows"])
def test_gradients_are_the_slopes_of_the_forward(part: str, name: str) -> None:
    parts = {"bias full", "sinks number", "softcap", part}
    if part.startswith(("normaliser relu", "normaliser exp-minus-max")):
        parts.discard("softcap")
    case = make(SIZES, 4, frozenset(parts), seed=5)
    gradient = cotangent(case)
    if not np.isfinite(reference.attention(case.q, case.k, case.v, **case.options).context).all():
        pytest.fail("the case has rows that see nothing")
    mine = getattr(backward(case, gradient), name)
    along = np.random.default_rng(2).normal(size=mine.shape)
    expected = slope(case, name, along, gradient)
    largest = max(abs(expected), float(np.abs(mine).sum()))
    assert float((mine * along).sum()) == pytest.approx(expected, abs=CURVATURE * largest)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_changes_the_gradients(part: str) -> None:
    before = ("mask with empty rows",) if part in {"zero", "uniform"} else ()
    without = make(SIZES, 4, frozenset(before), seed=0)
    with_it = make(SIZES, 4, frozenset({*before, part}), seed=0)
    gradient = cotangent(without)
    names = ("q", "k", "v")
    one, other = backward(without, gradient), backward(with_it, gradient)
    same = [
        np.isclose(getattr(one, name), getattr(other, name), rtol=1e-3, equal_nan=True).all()
        for name in names
    ]
    assert not all(same)


def test_rows_that_see_nothing_send_nothing_to_q() -> None:
    mask = np.array([[False], [True], [True]])
    case = make(SIZES, 4, frozenset(), seed=0)
    for empty_row in ("nan", "zero", "uniform"):
        found = backward(case, cotangent(case), mask=mask, empty_row=empty_row)
        assert not found.q[..., 0, :].any()
        assert np.isfinite(found.q).all()
        assert np.isfinite(found.k).all()
        assert np.isfinite(found.v).all() == (empty_row != "nan")


def test_weights_put_into_empty_rows_are_constants() -> None:
    bias = np.where(np.eye(3, 4) > 0, 0.0, -np.inf)
    bias[1] = -np.inf  # hidden by the bias alone, so that no mask stops what goes back
    case = make(SIZES, 4, frozenset(), seed=0)
    for empty_row in ("zero", "uniform"):
        found = backward(case, cotangent(case), bias=bias, empty_row=empty_row)
        assert not found.scores[..., 1, :].any()
        for name in ("q", "k", "v", "bias", "scale"):
            assert np.isfinite(getattr(found, name)).all(), name
    assert np.isnan(backward(case, cotangent(case), bias=bias).scores[..., 1, :]).all()


def test_the_row_sum_is_that_of_gradient_and_context() -> None:
    case = make(SIZES, 4, frozenset({"bias full", "causal top-left"}), seed=0)
    gradient = cotangent(case)
    found = backward(case, gradient)
    forward = reference.attention(case.q, case.k, case.v, **case.options)
    np.testing.assert_allclose(
        (forward.weights * found.weights).sum(-1), (gradient * forward.context).sum(-1), rtol=1e-12
    )


def test_a_gradient_of_another_shape_is_an_error() -> None:
    case = make(SIZES, 4, frozenset(), seed=0)
    with pytest.raises(InputError, match=r"shape \(2, 3\) for a result of shape \(2, 4, 3, 3\)"):
        backward(case, np.ones((2, 3)))


@pytest.mark.parametrize("options", [{"causl": True}, {"is_causal": True}, {"attn_mask": None}])
def test_an_option_that_the_forward_has_not_is_refused_by_both(options: dict[str, Any]) -> None:
    x = np.ones((3, 4))
    text = f"unexpected keyword argument {next(iter(options))!r}"
    forward: Any = reference.attention
    with pytest.raises(TypeError, match=text):
        forward(x, x, x, **options)
    with pytest.raises(TypeError, match=text):
        reference.attention_backward(x, x, x, x, **options)


def test_an_edit_has_no_gradient() -> None:
    x = np.ones((3, 4))
    for name in ("edit_raw_scores", "edit_scores", "edit_weights"):
        edit: Any = {name: np.zeros_like}
        with pytest.raises(InputError, match=f"{name}, an edit whose derivative is not known"):
            reference.attention_backward(x, x, x, x, **edit)
        none: Any = {name: None}
        reference.attention_backward(x, x, x, x, **none)
