from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import InputError
from attnscope.reference import (
    BlockSparse,
    Fixed,
    LocalGlobal,
    Pattern,
    SlidingWindow,
    Strided,
    pattern_attention,
    pattern_attention_backward,
)
from tests.reference.differences import CLOSE, ROUNDING, slopes
from tests.reference.patterns.generated import ALIGNMENTS, PATTERNS


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, scale: float
) -> torch.Tensor:
    """Return attention over all pairs, the hidden ones masked."""
    scores = scale * q @ k.mT
    weights = scores.masked_fill(~torch.from_numpy(mask), float("-inf")).softmax(-1)
    return torch.as_tensor(weights @ v)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    PATTERNS, st.integers(1, 8), st.integers(0, 4), ALIGNMENTS, st.booleans(), st.integers(0, 99)
)
def test_context_and_gradients_are_those_of_the_masked_dense_form(
    pattern: Pattern, queries: int, past: int, alignment: Any, scaled: Any, seed: int
) -> None:
    keys = queries + past
    rng = np.random.default_rng(seed)
    q, along = rng.normal(size=(2, 3, queries, 4)), rng.normal(size=(2, 3, queries, 5))
    k, v = rng.normal(size=(2, 3, keys, 4)), rng.normal(size=(2, 3, keys, 5))
    mask = pattern.mask(queries, keys, alignment)
    seeing = np.flatnonzero(mask.any(-1))
    blind = np.flatnonzero(~mask.any(-1))
    options: Any = {"alignment": alignment, "scale": 0.7 if scaled else None}

    leaves = [torch.tensor(one, requires_grad=True) for one in (q, k, v)]
    shown = leaves[0][..., torch.from_numpy(seeing), :]
    expected = dense(shown, leaves[1], leaves[2], mask[seeing], 0.7 if scaled else 0.5)
    expected.backward(torch.tensor(along[..., seeing, :]))
    found = pattern_attention(q, k, v, pattern, **options)
    np.testing.assert_allclose(found[..., seeing, :], expected.detach(), atol=ROUNDING)
    assert np.isnan(found[..., blind, :]).all()
    gradients = pattern_attention_backward(along, q, k, v, pattern, **options)
    for own, leaf in zip(gradients, leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(own, leaf.grad, atol=10 * ROUNDING)


def test_gradients_are_the_slopes() -> None:
    q, k, v, along = (array(2, 5, 3, seed=seed) for seed in range(4))
    pattern = LocalGlobal(1, 0, (2,))
    expected = slopes(lambda q, k, v: pattern_attention(q, k, v, pattern), q, k, v, along=along)
    found = pattern_attention_backward(along, q, k, v, pattern)
    for own, slope in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, slope, atol=CLOSE)


@pytest.mark.parametrize(
    "pattern",
    [
        SlidingWindow(2, 1),
        Strided(3),
        Fixed(3),
        BlockSparse(np.tri(3, dtype=bool), 3),
        LocalGlobal(1, 1, (), causal=True),
    ],
    ids=lambda pattern: type(pattern).__name__,
)
def test_a_hidden_key_is_never_touched(pattern: Pattern) -> None:
    q, k, v = (array(8, 3, seed=seed) for seed in range(3))
    mask = pattern.mask(8, 8)
    assert not mask.all()
    whole = pattern_attention(q, k, v, pattern)
    for row in range(8):
        poisoned_k, poisoned_v = (np.where(mask[row][:, None], one, np.nan) for one in (k, v))
        context = pattern_attention(q, poisoned_k, poisoned_v, pattern)
        np.testing.assert_array_equal(context[row], whole[row])
    poisoned_v[:] = np.nan
    assert np.isnan(pattern_attention(q, k, poisoned_v, pattern)).all()


def test_scale_and_alignment_matter() -> None:
    q, k, v = array(3, 4), array(5, 4, seed=1), array(5, 2, seed=2)
    options: Any = {"alignment": "top-left"}
    plain = pattern_attention(q, k, v, SlidingWindow(1), **options)
    for change in ({"scale": 2.0}, {"alignment": "bottom-right"}):
        changed = pattern_attention(q, k, v, SlidingWindow(1), **{**options, **change})
        assert not np.allclose(changed, plain, atol=1e-3)


def test_shapes_that_do_not_fit_are_named() -> None:
    q, k, v = array(2, 3), array(2, 3), array(2, 4)
    pattern = SlidingWindow(1)
    for wrong in ((q, k, v[:1]), (q[:, :2], k, v), (q[None], k, v)):
        with pytest.raises(InputError, match=r"the shapes are q .*; give q \(\.\.\., queries"):
            pattern_attention(wrong[0], wrong[1], wrong[2], pattern)
    mask: Any = np.tri(2, dtype=bool)
    with pytest.raises(InputError, match="the pattern is ndarray; give a rule, such as"):
        pattern_attention(q, k, v, mask)
    with pytest.raises(
        InputError, match=r"gradient of shape \(2, 3\) for a result of shape \(2, 4\)"
    ):
        pattern_attention_backward(np.ones((2, 3)), q, k, v, pattern)
