from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import InputError
from attnscope.reference import (
    FeatureState,
    elu_plus_one,
    elu_plus_one_backward,
    linear_attention,
    linear_attention_backward,
    linear_attention_recurrent,
)
from tests.reference.differences import CLOSE, ROUNDING, slopes


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def in_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, keep: Any, eps: float
) -> torch.Tensor:
    """Return linear attention by its sums over keys, as linear-time code computes it."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if keep is not None:
        k = k * torch.from_numpy(keep)[..., None]
    outer = k[..., :, None] * v[..., None, :]  # (..., keys, head_dim, value_dim)
    if causal:
        sums, totals = outer.cumsum(-3), k.cumsum(-2)
    else:
        sums, totals = outer.sum(-3, keepdim=True), k.sum(-2, keepdim=True)
    numerators = (q[..., None, :] @ sums).squeeze(-2)
    return torch.as_tensor(numerators / ((q * totals).sum(-1, keepdim=True) + eps))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    axes=st.sampled_from([0, 1, 2]),
    causal=st.booleans(),
    padded=st.booleans(),
    eps=st.sampled_from([0.0, 1e-6, 0.5]),
    seed=st.integers(0, 99),
)
def test_context_and_gradients_are_torchs(
    *, queries: int, keys: int, axes: int, causal: bool, padded: bool, eps: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    lead = (2, 3)[2 - axes :]
    keys = queries if causal else keys
    arguments = [
        rng.normal(size=shape)
        for shape in ((*lead, queries, 4), (*lead, keys, 4), (*lead, keys, 5))
    ]
    keep = rng.random((*lead[:-1], *(1 for _ in lead[-1:]), keys)) < 0.7 if padded else None
    if keep is not None:
        keep[..., 0] = True  # so that no row is empty
    along = rng.normal(size=(*lead, queries, 5))
    options: Any = {"causal": causal, "keep": keep, "eps": eps}
    leaves = [torch.tensor(one, requires_grad=True) for one in arguments]
    expected = in_torch(*leaves, **options)
    expected.backward(torch.tensor(along))
    found = linear_attention(*arguments, **options)
    np.testing.assert_allclose(found, expected.detach(), atol=10 * ROUNDING)
    gradients = linear_attention_backward(along, *arguments, **options)
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(gradient, leaf.grad, atol=100 * ROUNDING)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0.0, 0.5]), st.integers(0, 99))
def test_the_recurrent_form_is_the_parallel_one_also_when_it_goes_on(
    first: int, second: int, eps: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, 2, 3, first + second, 4))
    v = rng.normal(size=(2, 3, first + second, 5))
    parallel = linear_attention(q, k, v, causal=True, eps=eps)
    early, late = (
        [x[..., part, :] for x in (q, k, v)] for part in (slice(first), slice(first, None))
    )
    before, state = linear_attention_recurrent(early[0], early[1], early[2], eps=eps)
    after, last = linear_attention_recurrent(late[0], late[1], late[2], state, eps=eps)
    found = np.concatenate([before, after], axis=-2)
    np.testing.assert_allclose(found, parallel, atol=10 * ROUNDING)
    assert last.sums.shape == (2, 3, 4, 5)
    np.testing.assert_allclose(last.totals, elu_plus_one(k).sum(-2), atol=10 * ROUNDING)


def test_gradients_are_the_slopes() -> None:
    arguments = [array(2, 5, 3, seed=seed) for seed in range(3)]
    along, keep = array(2, 5, 3, seed=3), np.array([True, True, False, True, True])
    for causal in (False, True):
        options: Any = {"causal": causal, "keep": keep, "eps": 0.1}
        expected = slopes(
            lambda *given, options=options: linear_attention(*given, **options),
            *arguments,
            along=along,
        )
        found = linear_attention_backward(along, *arguments, **options)
        for own, slope in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, slope, atol=10 * CLOSE)
        assert not found.k[:, 2].any()


def test_the_features_are_elu_plus_one() -> None:
    x = np.concatenate([array(40), [0.0, -800.0, 800.0]])
    leaf = torch.tensor(x, requires_grad=True)
    expected = F.elu(leaf) + 1
    expected.sum().backward()
    np.testing.assert_allclose(elu_plus_one(x), expected.detach(), atol=ROUNDING)
    assert leaf.grad is not None
    np.testing.assert_allclose(elu_plus_one_backward(np.ones(43), x), leaf.grad, atol=ROUNDING)


def test_rows_of_weights_sum_to_one_and_later_keys_change_nothing() -> None:
    q, k, v = (array(6, 4, seed=seed) for seed in range(3))
    np.testing.assert_allclose(linear_attention(q, k, np.ones((6, 1))), 1)
    whole = linear_attention(q, k, v, causal=True)
    k[4:], v[4:] = 9.0, -9.0
    changed = linear_attention(q, k, v, causal=True)
    np.testing.assert_array_equal(changed[:4], whole[:4])
    assert not np.allclose(changed[4:], whole[4:])


def test_a_row_without_keys_is_nan_and_with_eps_zero() -> None:
    q, k, v = (array(2, 3, seed=seed) for seed in range(3))
    keep = np.zeros(2, bool)
    assert np.isnan(linear_attention(q, k, v, keep=keep)).all()
    assert not linear_attention(q, k, v, keep=keep, eps=1e-6).any()


@pytest.mark.parametrize(
    "option", [{"causal": True}, {"keep": np.arange(4) != 1}, {"eps": 1.0}], ids=str
)
def test_each_option_matters(option: dict[str, Any]) -> None:
    arguments = [array(4, 3, seed=seed) for seed in range(3)]
    along = array(4, 3, seed=3)
    plain = linear_attention(*arguments)
    assert not np.allclose(linear_attention(*arguments, **option), plain, atol=1e-3)
    gradients = linear_attention_backward(along, *arguments)
    changed = linear_attention_backward(along, *arguments, **option)
    for own, before in zip(changed, gradients, strict=True):
        assert not np.allclose(own, before, atol=1e-3)


def test_what_cannot_be_used_is_named() -> None:
    q, k, v = array(2, 3), array(4, 3), array(4, 5)
    with pytest.raises(InputError, match=r"kernel \(2, 4\); give as many queries as keys, or use"):
        linear_attention(q, k, v, causal=True)
    with pytest.raises(InputError, match="give one query for each key"):
        linear_attention_recurrent(q, k, v)
    with pytest.raises(InputError, match=r"query_features \(2, 3\), key_features \(4, 2\)"):
        linear_attention(q, k[:, :2], v)
    with pytest.raises(InputError, match=r"keep \(3,\), keys \(4,\)"):
        linear_attention(q, k, v, keep=np.ones(3, bool))
    with pytest.raises(
        InputError, match=r"gradient of shape \(2, 3\) for a result of shape \(2, 5\)"
    ):
        linear_attention_backward(q, q, k, v)
    state = FeatureState(np.zeros((3, 4)), np.zeros(3))
    with pytest.raises(InputError, match=r"give a state of the shapes \(3, 5\) and \(3,\)"):
        linear_attention_recurrent(k, k, v, state)
