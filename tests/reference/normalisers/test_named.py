from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attnscope.calls.normalisers import NORMALISERS as IN_TORCH
from attnscope.reference import (
    NORMALISERS,
    entmax,
    logsumexp,
    softmax,
    softmax_off_by_one,
    sparsemax,
)
from attnscope.reference.normalisers.named import normaliser_of

ROWS = arrays.arrays(
    np.float64,
    arrays.array_shapes(min_dims=2, max_dims=3, max_side=5),
    elements=st.one_of(st.floats(-30, 30), st.just(-np.inf), st.sampled_from([0.0, 1.0, -1.0])),
)
SIMPLEX = ("softmax", "sparsemax", "entmax", "relu-normalised")


def test_there_is_one_for_every_name_in_a_recipe() -> None:
    assert set(NORMALISERS) == set(IN_TORCH)
    assert all(name == normaliser.name for name, normaliser in NORMALISERS.items())


@pytest.mark.parametrize("name", NORMALISERS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(scores=ROWS, axis=st.sampled_from([-1, -2]))
def test_weights_are_those_of_torch(name: str, scores: np.ndarray, axis: int) -> None:
    found = NORMALISERS[name].forward(scores, axis)
    expected = IN_TORCH[name](torch.from_numpy(scores), axis).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NORMALISERS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), axis=st.sampled_from([-1, -2]))
def test_gradients_are_those_of_autograd(name: str, seed: int, axis: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, size=2))  # drawn, so that no score lies on a corner
    scores = np.where(rng.random(shape) < 0.2, -np.inf, 2 * rng.normal(size=shape))
    gradient = rng.normal(size=shape)
    leaf = torch.from_numpy(scores).requires_grad_()
    weights = (
        _entmax_from_its_support(leaf, axis) if name == "entmax" else IN_TORCH[name](leaf, axis)
    )
    weights.backward(torch.from_numpy(gradient))
    assert leaf.grad is not None
    normaliser = NORMALISERS[name]
    found = normaliser.backward(scores, normaliser.forward(scores, axis), gradient, axis)
    lost = np.isnan(normaliser.forward(scores, axis))
    kept, expected = (np.where(lost, 0.0, x) for x in (found, leaf.grad))
    np.testing.assert_allclose(kept, expected, rtol=1e-9, atol=1e-12 * (1 + np.abs(kept).max()))


def _entmax_from_its_support(scores: torch.Tensor, axis: int) -> torch.Tensor:
    """Return entmax in closed form over the keys that have a weight, for autograd."""
    with torch.no_grad():
        support = IN_TORCH["entmax"](scores, axis) > 0
    half = torch.where(support, scores, 0.0) / 2
    count = support.sum(axis, keepdim=True)
    mean = half.sum(axis, keepdim=True) / count
    spread = torch.where(support, half - mean, 0.0).square().sum(axis, keepdim=True)
    threshold = mean - ((1 - spread) / count).sqrt()
    return torch.where(support, half - threshold, 0.0).square()


@pytest.mark.parametrize("name", NORMALISERS)
def test_hidden_keys_get_no_weight_and_no_gradient(name: str) -> None:
    scores = np.array([[1.0, -np.inf, 0.5, -np.inf]])
    normaliser = NORMALISERS[name]
    weights = normaliser.forward(scores, -1)
    gradient = normaliser.backward(scores, weights, np.ones_like(scores) * [[1, 2, 3, 4]], -1)
    assert not weights[:, [1, 3]].any()
    assert not gradient[:, [1, 3]].any()
    assert weights[:, [0, 2]].all()
    assert gradient[:, [0, 2]].all()
    if name in SIMPLEX:
        np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-15)
        level = normaliser.backward(scores, weights, np.ones_like(scores), -1)
        np.testing.assert_allclose(level, 0.0, atol=1e-15)


@pytest.mark.parametrize("shift", [-1000.0, 1000.0])
def test_a_number_added_to_all_scores_changes_nothing(shift: float) -> None:
    scores = np.array([0.3, -0.2, 0.1])
    for function in (softmax, sparsemax, entmax):
        np.testing.assert_allclose(function(scores + shift), function(scores), rtol=1e-11)
    assert not np.allclose(softmax_off_by_one(scores + shift), softmax_off_by_one(scores))
    np.testing.assert_allclose(logsumexp(scores + shift), logsumexp(scores) + shift)


def test_sparsemax_and_entmax_drop_what_is_far() -> None:
    scores = np.array([1.0, 0.8, -1.0, -np.inf])
    np.testing.assert_allclose(sparsemax(scores), [0.6, 0.4, 0.0, 0.0])
    roots = np.sqrt(entmax(scores))
    assert roots[0] - roots[1] == pytest.approx(0.1)
    assert entmax(scores)[2:].tolist() == [0.0, 0.0]


def test_equal_largest_scores_share_the_gradient_of_the_maximum() -> None:
    normaliser = NORMALISERS["exp-minus-max"]
    scores = np.array([1.0, 1.0, 0.0])
    gradient = normaliser.backward(scores, normaliser.forward(scores, -1), np.ones(3), -1)
    rest = np.exp(-1.0)
    np.testing.assert_allclose(gradient, [-rest / 2, -rest / 2, rest])


def test_a_factor_goes_through_both_ways() -> None:
    plain, shared = NORMALISERS["relu"], NORMALISERS["relu"].times(0.25)
    scores, gradient = np.array([2.0, -1.0]), np.array([3.0, 5.0])
    weights = shared.forward(scores, -1)
    assert weights.tolist() == [0.5, 0.0]
    assert shared.backward(scores, weights, gradient, -1).tolist() == [0.75, 0.0]
    assert plain.backward(scores, weights, gradient, -1).tolist() == [3.0, 0.0]
    soft = NORMALISERS["softmax"].times(2.0)
    expected = 2 * NORMALISERS["softmax"].backward(scores, softmax(scores), gradient, -1)
    np.testing.assert_allclose(
        soft.backward(scores, soft.forward(scores, -1), gradient, -1), expected
    )
    assert normaliser_of(shared) is shared
