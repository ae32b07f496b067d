from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt import modeling_mpt

from attnscope.errors import InputError
from attnscope.reference import alibi_bias, alibi_bias_backward, alibi_slopes, softmax
from tests.reference.differences import CLOSE, ROUNDING, slopes

build_mpt_alibi_tensor: Any = modeling_mpt.build_mpt_alibi_tensor

FLOAT32 = 1e-6
"""Relative: powers of a rounded base in float32."""


@pytest.mark.parametrize("heads", [*range(1, 41), 64, 71, 112, 128])
def test_slopes_are_those_of_bloom_and_mpt(heads: int) -> None:
    found = alibi_slopes(heads)
    assert found.shape == (heads,)
    bloom = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    mpt = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0]
    np.testing.assert_allclose(found, bloom, rtol=FLOAT32)
    np.testing.assert_allclose(found, mpt, rtol=FLOAT32)


@pytest.mark.parametrize("steepness", [0.5, 8, 16])
@pytest.mark.parametrize("heads", [4, 6])
def test_the_steepness_is_mpts_largest_exponent(heads: int, steepness: float) -> None:
    mpt = -build_mpt_alibi_tensor(heads, 2, alibi_bias_max=steepness)[:, 0, 0]
    np.testing.assert_allclose(alibi_slopes(heads, steepness=steepness), mpt, rtol=FLOAT32)


def test_slopes_of_a_power_of_two_are_the_papers() -> None:
    np.testing.assert_array_equal(alibi_slopes(8), 0.5 ** np.arange(1, 9))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 12), st.integers(1, 7), st.integers(0, 5), st.integers(0, 99))
def test_weights_under_a_causal_mask_are_blooms_in_both_forms(
    heads: int, queries: int, past: int, seed: int
) -> None:
    keys = queries + past
    places = np.arange(past, keys), np.arange(keys)
    scores = np.random.default_rng(seed).normal(size=(heads, queries, keys))
    hidden = places[1] > places[0][:, None]
    bloom = build_alibi_tensor(torch.ones(1, keys), heads, torch.float32).double().numpy()
    expected = softmax(np.where(hidden, -np.inf, scores + bloom))
    for form in ("causal", "symmetric"):
        bias = alibi_bias(alibi_slopes(heads), *places, form=form)
        found = softmax(np.where(hidden, -np.inf, scores + bias))
        np.testing.assert_allclose(found, expected, atol=keys * FLOAT32)


def test_the_forms_differ_on_later_keys_alone() -> None:
    places = np.arange(5)
    causal, symmetric = (
        alibi_bias([0.5, 0.25], places, places, form=form) for form in ("causal", "symmetric")
    )
    later = np.triu(np.ones((5, 5), bool), 1)
    np.testing.assert_array_equal(causal[:, ~later], symmetric[:, ~later])
    np.testing.assert_array_equal(causal[:, later], -symmetric[:, later])
    np.testing.assert_array_equal(symmetric, symmetric.swapaxes(-1, -2))
    assert (symmetric[:, later] < 0).all()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(-50, 50), st.sampled_from(["causal", "symmetric"]))
def test_the_bias_depends_on_the_distance_alone(shift: int, form: Any) -> None:
    places = np.array([0, 3, 4, 9])
    found = alibi_bias([0.5], places + shift, places + shift, form=form)
    np.testing.assert_allclose(
        found, alibi_bias([0.5], places, places, form=form), atol=50 * ROUNDING
    )


def test_samples_may_have_positions_of_their_own() -> None:
    queries, keys = np.array([[2], [4]]), np.array([[0, 1, 2], [2, 3, 4]])
    found = alibi_bias([0.5, 0.1], queries, keys)
    assert found.shape == (2, 2, 1, 3)
    for sample in range(2):
        expected = alibi_bias([0.5, 0.1], queries[sample], keys[sample])
        np.testing.assert_array_equal(found[sample], expected)


@pytest.mark.parametrize("form", ["causal", "symmetric"])
def test_the_gradient_of_the_slopes_is_the_slope(form: Any) -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 9, size=(2, 3)), rng.integers(0, 9, size=(2, 4))
    along = rng.normal(size=(2, 5, 3, 4))
    (expected,) = slopes(
        lambda given: alibi_bias(given, *places, form=form), rng.normal(size=5), along=along
    )
    found = alibi_bias_backward(along, *places, form=form)
    np.testing.assert_allclose(found, expected, atol=CLOSE)
    more = alibi_bias_backward(np.stack([along, along]), *places, form=form)
    np.testing.assert_allclose(more, 2 * found, atol=ROUNDING * 100)


def test_each_argument_matters() -> None:
    plain = alibi_bias([0.5], [0, 1], [0, 1])
    assert not np.allclose(alibi_bias([0.4], [0, 1], [0, 1]), plain)
    assert not np.allclose(alibi_bias([0.5], [1, 2], [0, 1]), plain)
    assert not np.allclose(alibi_bias([0.5], [0, 1], [1, 2]), plain)
    assert not np.allclose(alibi_bias([0.5], [0, 1], [0, 1], form="symmetric"), plain)


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(InputError, match="heads is 0; give at least 1"):
        alibi_slopes(0)
    with pytest.raises(InputError, match="steepness is 0; give a positive number"):
        alibi_slopes(4, steepness=0)
    wrong: Any = "both"
    with pytest.raises(InputError, match="form is 'both'; give 'causal' or 'symmetric'"):
        alibi_bias([0.5], [0], [0], form=wrong)
    with pytest.raises(InputError, match=r"slopes \(1, 1\); give slopes \(heads,\)"):
        alibi_bias([[0.5]], [0], [0])
    with pytest.raises(InputError, match=r"gradient \(1, 2, 3\), distances \(2, 2\)"):
        alibi_bias_backward(np.ones((1, 2, 3)), [0, 1], [0, 1])
