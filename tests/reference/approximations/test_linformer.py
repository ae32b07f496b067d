from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import InputError
from attnscope.reference import linformer_attention, linformer_attention_backward, softmax
from tests.reference.differences import CLOSE, ROUNDING, slopes


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def in_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    e: torch.Tensor,
    f: torch.Tensor,
    *,
    scale: float,
    keep: Any,
) -> torch.Tensor:
    if keep is not None:
        padding = ~torch.from_numpy(keep)[..., None]
        k, v = k.masked_fill(padding, 0), v.masked_fill(padding, 0)
    weights = (q @ torch.einsum("...mn,...nd->...md", e, k).mT * scale).softmax(-1)
    return weights @ torch.einsum("...mn,...nd->...md", f, v)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
    st.sampled_from([None, 0.3]),
    st.booleans(),
    st.integers(0, 99),
)
def test_context_and_gradients_are_torchs(
    queries: int,
    keys: int,
    mixed: int,
    axes: int,
    per_head: Any,
    scale: float | None,
    padded: Any,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    lead = (2, 3)[2 - axes :]
    own = lead[-1:] if per_head else ()
    arguments = [
        rng.normal(size=shape)
        for shape in (
            (*lead, queries, 4),
            (*lead, keys, 4),
            (*lead, keys, 5),
            (*own, mixed, keys),
            (mixed, keys),
        )
    ]
    keep = rng.random((*lead[:-1], *(1 for _ in lead[-1:]), keys)) < 0.7 if padded else None
    along = rng.normal(size=(*lead, queries, 5))
    leaves = [torch.tensor(one, requires_grad=True) for one in arguments]
    expected = in_torch(*leaves, scale=scale or 0.5, keep=keep)
    expected.backward(torch.tensor(along))
    found = linformer_attention(*arguments, scale=scale, keep=keep)
    np.testing.assert_allclose(found, expected.detach(), atol=10 * ROUNDING)
    gradients = linformer_attention_backward(along, *arguments, scale=scale, keep=keep)
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert leaf.grad is not None
        assert gradient.shape == leaf.shape
        np.testing.assert_allclose(gradient, leaf.grad, atol=100 * ROUNDING)


def test_gradients_are_the_slopes() -> None:
    arguments = [array(2, 3, 4), array(2, 5, 4), array(2, 5, 3), array(2, 2, 5), array(2, 5)]
    keep, along = np.array([True, True, False, True, True]), array(2, 3, 3, seed=1)
    expected = slopes(
        lambda *given: linformer_attention(*given, keep=keep), *arguments, along=along
    )
    found = linformer_attention_backward(along, *arguments, keep=keep)
    for own, slope in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, slope, atol=10 * CLOSE)
    assert not found.k[:, 2].any()
    assert not found.v[:, 2].any()


def test_with_nothing_mixed_it_is_softmax_attention() -> None:
    q, k, v = array(3, 4), array(5, 4, seed=1), array(5, 2, seed=2)
    found = linformer_attention(q, k, v, np.eye(5), np.eye(5))
    np.testing.assert_allclose(found, softmax(q @ k.T / 2) @ v, atol=ROUNDING)


def test_what_is_padding_changes_nothing() -> None:
    q, k, v, e, f = (array(*shape) for shape in ((3, 4), (5, 4), (5, 2), (2, 5), (2, 5)))
    keep = np.array([True, True, False, True, False])
    found = linformer_attention(q, k, v, e, f, keep=keep)
    k[~keep], v[~keep] = 7.0, -9.0
    np.testing.assert_array_equal(linformer_attention(q, k, v, e, f, keep=keep), found)
    shorter = linformer_attention(q, k[keep], v[keep], e[:, keep], f[:, keep])
    np.testing.assert_allclose(shorter, found, atol=ROUNDING)


@pytest.mark.parametrize("place", range(5))
def test_each_array_matters(place: int) -> None:
    arguments = [array(3, 4), array(5, 4), array(5, 2), array(2, 5), array(2, 5)]
    plain = linformer_attention(*arguments)
    arguments[place] = arguments[place] + array(*arguments[place].shape, seed=9)
    assert not np.allclose(linformer_attention(*arguments), plain, atol=1e-3)


@pytest.mark.parametrize("option", [{"scale": 2.0}, {"keep": np.arange(5) != 1}], ids=str)
def test_each_option_matters(option: dict[str, Any]) -> None:
    arguments = [array(3, 4), array(5, 4), array(5, 2), array(2, 5), array(2, 5)]
    plain = linformer_attention(*arguments)
    assert not np.allclose(linformer_attention(*arguments, **option), plain, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: (5, 3)}, "give q (..., queries, head_dim), k (..., keys, head_dim)"),
        ({2: (4, 2)}, "v (4, 2); give q"),
        ({3: (2, 4)}, "key_mixing (2, 4), value_mixing (2, 5); give both mixings as (mixed, 5)"),
        ({4: (3, 5)}, "key_mixing (2, 5), value_mixing (3, 5)"),
        ({3: (3, 2, 5)}, "key_mixing (3, 2, 5)"),
        ({3: (5,)}, "key_mixing has the shape (5,); give it at least 2 axes"),
    ],
)
def test_shapes_that_do_not_fit_are_named(change: Any, message: str) -> None:
    shapes = {0: (3, 4), 1: (5, 4), 2: (5, 2), 3: (2, 5), 4: (2, 5), **change}
    with pytest.raises(InputError, match=r"^attending as Linformer: ") as caught:
        linformer_attention(*(np.ones(shape) for shape in shapes.values()))
    assert message in str(caught.value)


def test_a_keep_or_gradient_that_does_not_fit_is_named() -> None:
    arguments = [array(3, 4), array(5, 4), array(5, 2), array(2, 5), array(2, 5)]
    with pytest.raises(InputError, match="keep is of type int64; give booleans"):
        linformer_attention(*arguments, keep=[1, 1, 1, 0, 0])
    with pytest.raises(
        InputError, match=r"gradient of shape \(3, 4\) for a result of shape \(3, 2\)"
    ):
        linformer_attention_backward(array(3, 4), *arguments)
