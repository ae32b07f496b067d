"""From tokens to tokens: the same as torch, forward and backward, with every width its own."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnscope import reference
from attnscope.errors import InputError
from attnscope.reference import AttentionWeights

NAMES = ("q", "k", "v", "output")


def drawn(
    widths: tuple[int, int, int], sizes: tuple[int, int, int, int], rng: np.random.Generator
) -> AttentionWeights:
    """Return weights for widths (x, source, values) and (heads, kv heads, head_dim, value_dim)."""
    heads, kv_heads, head_dim, value_dim = sizes
    rows = (heads * head_dim, kv_heads * head_dim, kv_heads * value_dim, widths[0])
    columns = (*widths, heads * value_dim)
    matrices = [rng.normal(size=shape) * 0.5 for shape in zip(rows, columns, strict=True)]
    return AttentionWeights(*matrices, *(rng.normal(size=row) for row in rows))


def leaves(weights: AttentionWeights) -> dict[str, Tensor]:
    found = {field.name: getattr(weights, field.name) for field in fields(weights)}
    return {
        name: torch.tensor(value, requires_grad=True)
        for name, value in found.items()
        if value is not None
    }


def gradient_of(leaf: Tensor) -> np.ndarray:
    assert leaf.grad is not None
    return np.asarray(leaf.grad)


def in_torch(streams: list[Tensor], w: dict[str, Tensor], heads: int, kv_heads: int) -> Tensor:
    """Return the output, as a model would compute it."""
    q, k, v = (
        F.linear(stream, w[name], w.get(f"{name}_bias"))
        .unflatten(-1, (count, -1))
        .transpose(-3, -2)
        for stream, name, count in zip(streams, "qkv", (heads, kv_heads, kv_heads), strict=True)
    )
    context = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    merged = context.transpose(-3, -2).flatten(-2)
    return F.linear(merged, w["output"], w.get("output_bias")) if "output" in w else merged


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    sizes=st.fixed_dictionaries(
        {name: st.integers(1, 3) for name in ("kv_heads", "group", "head_dim", "value_dim")}
    ),
    streams=st.sampled_from(["self", "source", "source and values"]),
    without=st.frozensets(st.sampled_from(["output", "q_bias", "k_bias", "v_bias", "output_bias"])),
    batched=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_outputs_and_gradients_are_those_of_torch(
    sizes: dict[str, int], streams: str, without: frozenset[str], *, batched: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    kv_heads, heads = sizes["kv_heads"], sizes["kv_heads"] * sizes["group"]
    widths = (5, 5, 5) if streams == "self" else (5, 7, 7) if streams == "source" else (5, 7, 4)
    shape = (heads, kv_heads, sizes["head_dim"], sizes["value_dim"])
    weights = drawn(widths, shape, rng)
    gone: dict[str, Any] = dict.fromkeys(without)
    if "output" in gone:
        gone["output_bias"] = None
    weights = replace(weights, **gone)
    lead = (2,) if batched else ()
    x = rng.normal(size=(*lead, 3, 5))
    source = None if streams == "self" else rng.normal(size=(*lead, 4, widths[1]))
    values = rng.normal(size=(*lead, 4, 4)) if streams == "source and values" else None

    made = {"x": x, "source": source, "values": values}
    given_streams = {
        name: torch.tensor(value, requires_grad=True)
        for name, value in made.items()
        if value is not None
    }
    w = leaves(weights)
    asked = given_streams.get("source", given_streams["x"])
    order = [given_streams["x"], asked, given_streams.get("values", asked)]
    expected = in_torch(order, w, heads, kv_heads)
    if source is None:
        found = reference.grouped_query(x, weights, heads, kv_heads)
    else:
        found = reference.cross_attention(
            x, source, weights, heads, kv_heads=kv_heads, values=values
        )
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-10, atol=1e-12)

    gradient = rng.normal(size=expected.shape)
    expected.backward(torch.from_numpy(gradient))
    back = reference.projected_backward(
        gradient, x, weights, heads, kv_heads=kv_heads, source=source, values=values
    )
    for name, value in made.items():
        mine = getattr(back, name)
        assert (mine is None) == (value is None)
        if value is not None:
            np.testing.assert_allclose(
                mine, gradient_of(given_streams[name]), rtol=1e-9, atol=1e-11
            )
    for field in fields(weights):
        mine = getattr(back.weights, field.name)
        assert (mine is None) == (field.name not in w), field.name
        if mine is not None:
            np.testing.assert_allclose(mine, gradient_of(w[field.name]), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kdim", [None, 7])
def test_the_module_of_torch_gives_the_same(kdim: int | None) -> None:
    module = torch.nn.MultiheadAttention(6, 3, kdim=kdim, vdim=kdim, batch_first=True).double()
    state = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    if kdim is None:
        packed = (state["in_proj_weight"], state["in_proj_bias"])
        weights = AttentionWeights.from_packed(
            *packed, state["out_proj.weight"], state["out_proj.bias"]
        )
    else:
        apart = [state[f"{name}_proj_weight"] for name in "qkv"]
        q_bias, k_bias, v_bias = np.split(state["in_proj_bias"], 3)
        out = (state["out_proj.weight"], q_bias, k_bias, v_bias, state["out_proj.bias"])
        weights = AttentionWeights(apart[0], apart[1], apart[2], *out)
    x, source = torch.randn(2, 4, 6).double(), torch.randn(2, 5, kdim or 6).double()
    expected, seen = module(x, source, source, average_attn_weights=False)
    found = reference.cross_attention(x.numpy(), source.numpy(), weights, 3)
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.attention.weights, seen.detach(), rtol=1e-12)


def test_text_asks_an_image_of_another_width() -> None:
    rng = np.random.default_rng(0)
    text, image = rng.normal(size=(2, 3, 512)), rng.normal(size=(2, 5, 768))
    weights = drawn((512, 768, 768), (8, 8, 16, 16), rng)
    found = reference.cross_attention(text, image, weights, heads=8)
    assert found.output.shape == text.shape
    assert found.k.shape == (2, 8, 5, 16)
    changed = reference.cross_attention(text, image + 1, weights, heads=8)
    assert not np.allclose(found, changed)


def test_names_are_one_computation_with_other_kv_heads() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 8))
    for function, kv_heads in ((reference.multi_head, 4), (reference.multi_query, 1)):
        weights = drawn((8, 8, 8), (4, kv_heads, 2, 3), rng)
        expected = reference.grouped_query(x, weights, 4, kv_heads)
        found = function(x, weights, 4)
        np.testing.assert_array_equal(found, expected)
        assert found.k.shape == (2, kv_heads, 3, 2)


def test_shared_kv_heads_are_full_ones_that_are_equal() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2, 3, 8)), drawn((8, 8, 8), (4, 2, 2, 3), rng)

    def repeated(rows: np.ndarray) -> np.ndarray:
        return np.repeat(rows.reshape(2, -1, *rows.shape[1:]), 2, axis=0).reshape(
            -1, *rows.shape[1:]
        )

    assert weights.k_bias is not None
    assert weights.v_bias is not None
    full = replace(
        weights,
        k=repeated(weights.k),
        v=repeated(weights.v),
        k_bias=repeated(weights.k_bias),
        v_bias=repeated(weights.v_bias),
    )
    found = reference.grouped_query(x, weights, 4, 2)
    np.testing.assert_allclose(reference.multi_head(x, full, 4), found, rtol=1e-12)
    tiled = reference.grouped_query(x, weights, 4, 2, kv_map="tiled")
    assert not np.allclose(tiled, found)


def test_options_reach_attention_and_its_backward() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2, 4, 8)), drawn((8, 8, 8), (4, 4, 2, 2), rng)
    causal = reference.multi_head(x, weights, 4, causal=True)
    later = x.copy()
    later[:, 2:] += 1
    np.testing.assert_allclose(
        reference.multi_head(later, weights, 4, causal=True).output[:, :2], causal.output[:, :2]
    )
    level = reference.multi_head(x, weights, 4, edit_scores=np.zeros_like)
    np.testing.assert_allclose(level.attention.weights, 0.25)
    gradient = np.zeros((2, 4, 8))
    gradient[:, 1] = 1
    back = reference.projected_backward(gradient, x, weights, 4, causal=True)
    assert not back.x[:, 2:].any()
    assert back.x[:, :2].all()


def test_without_an_output_projection_the_heads_are_the_output() -> None:
    rng = np.random.default_rng(0)
    weights = replace(drawn((8, 8, 8), (4, 4, 2, 2), rng), output=None, output_bias=None)
    found = reference.multi_head(rng.normal(size=(3, 8)), weights, 4)
    assert found.output is found.merged


def test_weights_that_do_not_fit_are_errors() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2, 3, 8)), drawn((8, 8, 8), (4, 2, 2, 3), rng)
    with pytest.raises(InputError, match="8 rows for q, 4 for k and 6 for v, for 4 heads and 4 kv"):
        reference.multi_head(x, weights, 4)
    with pytest.raises(InputError, match="for 3 heads"):
        reference.grouped_query(x, weights, 3, 2)
    with pytest.raises(InputError, match="projecting q: an input of shape"):
        reference.grouped_query(x[..., :7], weights, 4, 2)
    with pytest.raises(InputError, match=r"a bias of shape \(3,\)"):
        reference.grouped_query(x, replace(weights, q_bias=np.ones(3)), 4, 2)
    with pytest.raises(InputError, match="one value for each key"):
        reference.cross_attention(x, x, weights, 4, kv_heads=2, values=x[:, :2])
    with pytest.raises(InputError, match="an output_bias without output"):
        reference.grouped_query(x, replace(weights, output=None), 4, 2)
    with pytest.raises(InputError, match=r"a gradient of shape \(2, 3\)"):
        reference.projected_backward(np.ones((2, 3)), x, weights, 4, kv_heads=2)
    with pytest.raises(InputError, match=r"shape \(8, 4\)"):
        AttentionWeights.from_packed(np.ones((8, 4)))


def test_options_that_have_no_gradient_are_refused() -> None:
    weights = AttentionWeights(np.eye(4), np.eye(4), np.eye(4))
    options: Any = {"causl": True}
    with pytest.raises(TypeError, match="unexpected keyword argument 'causl'"):
        reference.projected_backward(np.ones((3, 4)), np.ones((3, 4)), weights, 2, **options)
    options = {"edit_scores": np.zeros_like}
    with pytest.raises(InputError, match="edit_scores, an edit whose derivative is not known"):
        reference.projected_backward(np.ones((3, 4)), np.ones((3, 4)), weights, 2, **options)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([[1.0], [2.0]],), r"a weight of shape \(2, 1\)"),
        (("qkv",), "the weight is of type"),
        ((np.eye(3), np.ones(6)), r"a bias of shape \(6,\) for 3 rows"),
    ],
)
def test_what_can_not_be_cut_in_three_is_an_error(arguments: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        AttentionWeights.from_packed(*arguments)
