from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from attnscope.errors import InputError
from attnscope.reference import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NTKScaling,
    ProportionalScaling,
    RotaryScaling,
    YarnScaling,
    rotary,
    rotary_frequencies,
    rotary_table,
)

FLOAT32 = 1e-6
"""Relative, for a power and a few products in float32; times the condition of a blend."""

BASES = st.sampled_from([100.0, 10000.0, 500000.0])
HEADS = st.sampled_from([4, 16, 64, 128])


def in_transformers(
    kind: str,
    head_dim: int,
    base: float,
    length: int | None = None,
    trained: int = 64,
    **parameters: Any,
) -> tuple[Any, float]:
    """Return frequencies and amplitude as transformers computes them."""
    config = LlamaConfig(
        hidden_size=head_dim * 2,
        num_attention_heads=2,
        head_dim=head_dim,
        max_position_embeddings=trained,
        rope_parameters={"rope_type": kind, "rope_theta": base, **parameters},
    )
    frequencies, amplitude = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)
    return frequencies.double().numpy(), float(amplitude)


def check(
    scaling: RotaryScaling,
    head_dim: int,
    base: float,
    expected: tuple[Any, float],
    length: int = 0,
    condition: float = 1.0,
) -> None:
    found = rotary_frequencies(head_dim, base=base, scaling=scaling, length=length)
    np.testing.assert_allclose(found, expected[0], rtol=FLOAT32 * condition)
    assert scaling.amplitude == pytest.approx(expected[1])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(HEADS, BASES, st.floats(1, 40))
def test_linear_scaling(head_dim: int, base: float, factor: float) -> None:
    expected = in_transformers("linear", head_dim, base, factor=factor)
    check(LinearScaling(factor), head_dim, base, expected)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(HEADS, BASES, st.floats(1, 40), st.integers(0, 1000))
def test_dynamic_ntk_scaling(head_dim: int, base: float, factor: float, length: int) -> None:
    expected = in_transformers("dynamic", head_dim, base, length, factor=factor)
    check(DynamicNTKScaling(factor, 64), head_dim, base, expected, length)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(HEADS, BASES, st.floats(1, 40))
def test_ntk_scaling_is_a_larger_base(head_dim: int, base: float, factor: float) -> None:
    found = rotary_frequencies(head_dim, base=base, scaling=NTKScaling(factor))
    larger = base * factor ** (head_dim / (head_dim - 2))
    np.testing.assert_allclose(found, rotary_frequencies(head_dim, base=larger))
    plain = rotary_frequencies(head_dim, base=base)
    assert found[0] == plain[0]
    np.testing.assert_allclose(found[-1], plain[-1] / factor)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    HEADS,
    BASES,
    st.floats(0.5, 40),
    st.integers(16, 8192),
    st.sampled_from([(32.0, 1.0), (8.0, 2.0), (2.0, 2.0)]),
    st.booleans(),
)
def test_yarn_scaling(
    head_dim: int, base: float, factor: float, trained: int, betas: Any, truncate: Any
) -> None:
    expected = in_transformers(
        "yarn",
        head_dim,
        base,
        trained=10**6,  # the length to stretch to, which only a warning looks at
        factor=factor,
        original_max_position_embeddings=trained,
        beta_fast=betas[0],
        beta_slow=betas[1],
        truncate=truncate,
    )
    scaling = YarnScaling(factor, trained, betas[0], betas[1], truncate=truncate)
    check(scaling, head_dim, base, expected, condition=1 + factor)  # of 1 - ramp beside ramp/factor


@pytest.mark.parametrize(
    ("theirs", "own"),
    [
        ({}, {}),
        ({"attention_factor": 1.7}, {"attention_factor": 1.7}),
        ({"mscale": 0.7, "mscale_all_dim": 1.3}, {"mscale": 0.7, "mscale_all": 1.3}),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, {"mscale": 1.0, "mscale_all": 1.0}),
        ({"mscale": 0.7}, {"mscale": 0.7}),
    ],
    ids=["paper", "given", "mscale", "equal-mscale", "half-given"],
)
@pytest.mark.parametrize("factor", [0.5, 4.0, 40.0])
def test_the_amplitude_of_yarn(theirs: Any, own: Any, factor: float) -> None:
    expected = in_transformers(
        "yarn", 16, 1e4, trained=10**6, factor=factor, original_max_position_embeddings=64, **theirs
    )
    check(YarnScaling(factor, 64, **own), 16, 1e4, expected, condition=1 + factor)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    HEADS,
    BASES,
    st.floats(1, 40),
    st.integers(16, 8192),
    st.sampled_from([(1.0, 4.0), (0.5, 8.0), (2.0, 2.5)]),
)
def test_llama3_scaling(
    head_dim: int, base: float, factor: float, trained: int, edges: tuple[float, float]
) -> None:
    expected = in_transformers(
        "llama3",
        head_dim,
        base,
        trained=10**6,  # the length to stretch to, which only a warning looks at
        factor=factor,
        original_max_position_embeddings=trained,
        low_freq_factor=edges[0],
        high_freq_factor=edges[1],
    )
    scaling = Llama3Scaling(factor, trained, *edges)
    blend = 1 + factor * edges[1] / (edges[1] - edges[0])  # how it magnifies an error of the turns
    check(scaling, head_dim, base, expected, condition=blend)


@pytest.mark.parametrize("length", [0, 64, 65, 200])
@pytest.mark.parametrize("attention_factor", [None, 1.3])
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_longrope_scaling(length: int, attention_factor: float | None, factor: float) -> None:
    short, long = tuple(np.linspace(1, 2, 8)), tuple(np.linspace(1, 9, 8))
    expected = in_transformers(
        "longrope",
        16,
        1e4,
        length,
        trained=int(64 * factor),
        factor=factor,
        short_factor=list(short),
        long_factor=list(long),
        original_max_position_embeddings=64,
        **({} if attention_factor is None else {"attention_factor": attention_factor}),
    )
    scaling = LongRopeScaling(short, long, 64, factor, attention_factor)
    check(scaling, 16, 1e4, expected, length)


@pytest.mark.parametrize("share", [0.25, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_proportional_scaling(share: float, factor: float) -> None:
    expected = in_transformers("proportional", 16, 1e4, factor=factor, partial_rotary_factor=share)
    check(ProportionalScaling(share, factor), 16, 1e4, expected)


def test_dynamic_scaling_takes_the_largest_position_unless_a_length_is_given() -> None:
    scaling = DynamicNTKScaling(2.0, 8)
    x = np.random.default_rng(0).normal(size=(4, 8))
    late = [28, 29, 30, 31]
    np.testing.assert_array_equal(
        rotary(x, late, scaling=scaling), rotary(x, late, scaling=scaling, length=32)
    )
    assert not np.allclose(
        rotary(x, late, scaling=scaling), rotary(x, late, scaling=scaling, length=64)
    )
    np.testing.assert_array_equal(rotary(x, scaling=scaling), rotary(x))


@pytest.mark.parametrize("length", [6, 20])
def test_the_table_is_that_of_a_dynamic_llama(length: int) -> None:
    config = LlamaConfig(
        hidden_size=16,
        num_attention_heads=2,
        max_position_embeddings=8,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0},
    )
    embedding = LlamaRotaryEmbedding(config)
    expected = embedding(torch.zeros(1, dtype=torch.float64), torch.arange(length)[None])
    found = rotary_table(np.arange(length), 8, scaling=DynamicNTKScaling(3.0, 8))
    for own, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.tile(own, 2), theirs[0], atol=1e-5)


def test_the_amplitude_multiplies_scores_by_its_square() -> None:
    scaling = YarnScaling(1e-9, 64, attention_factor=1.5)  # stretches no pair that turns often
    plain, sharp = (YarnScaling(4.0, 64, attention_factor=a) for a in (1.0, 1.5))
    q, k = np.random.default_rng(0).normal(size=(2, 3, 8))
    flat = rotary(q, scaling=plain) @ rotary(k, scaling=plain).T
    np.testing.assert_allclose(rotary(q, scaling=sharp) @ rotary(k, scaling=sharp).T, 2.25 * flat)
    assert scaling.amplitude == 1.5


@pytest.mark.parametrize(
    "scaling",
    [
        LinearScaling(2.0),
        NTKScaling(2.0),
        YarnScaling(2.0, 64),
        Llama3Scaling(2.0, 64),
        LongRopeScaling((2.0,) * 4, (2.0,) * 4, 64, 2.0),
        ProportionalScaling(0.5),
    ],
    ids=lambda scaling: type(scaling).__name__,
)
def test_scores_of_scaled_positions_depend_on_the_distance_alone(scaling: RotaryScaling) -> None:
    q, k = np.random.default_rng(0).normal(size=(2, 5, 8))
    places = np.array([0, 1, 2, 5, 9])
    plain = rotary(q, places, scaling=scaling) @ rotary(k, places, scaling=scaling).T
    moved = rotary(q, places + 40, scaling=scaling) @ rotary(k, places + 40, scaling=scaling).T
    np.testing.assert_allclose(moved, plain, atol=1e-11)
    assert not np.allclose(plain, rotary(q, places) @ rotary(k, places).T, atol=1e-3)


@pytest.mark.parametrize(
    ("plain", "change"),
    [
        (DynamicNTKScaling(2.0, 64), {"factor": 3.0}),
        (DynamicNTKScaling(2.0, 64), {"trained_length": 32}),
        (YarnScaling(2.0, 64), {"factor": 3.0}),
        (YarnScaling(2.0, 64), {"trained_length": 512}),
        (YarnScaling(2.0, 64), {"beta_fast": 2.0}),
        (YarnScaling(2.0, 512), {"beta_slow": 8.0}),
        (YarnScaling(2.0, 100), {"truncate": False}),
        (Llama3Scaling(2.0, 64), {"factor": 3.0}),
        (Llama3Scaling(2.0, 64), {"trained_length": 512}),
        (Llama3Scaling(2.0, 64), {"low": 0.1}),
        (Llama3Scaling(2.0, 64), {"high": 40.0}),
        (ProportionalScaling(0.5), {"share": 0.25}),
        (ProportionalScaling(0.5), {"factor": 2.0}),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, dict) else next(iter(one)),
)
def test_each_parameter_matters(plain: Any, change: dict[str, Any]) -> None:
    changed = type(plain)(
        **{name: getattr(plain, name) for name in plain.__dataclass_fields__} | change
    )
    found, before = (
        rotary_frequencies(16, scaling=scaling, length=100) for scaling in (changed, plain)
    )
    assert not np.allclose(found, before, rtol=1e-3, atol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearScaling(0.0), "factor is 0.0; give a positive number"),
        (lambda: NTKScaling(float("inf")), "factor is inf"),
        (lambda: DynamicNTKScaling(2.0, 0), "trained_length is 0"),
        (lambda: YarnScaling(2.0, 64, 1.0, 32.0), "beta_fast 1.0 is below beta_slow 32.0"),
        (lambda: YarnScaling(2.0, 64, beta_slow=0.0), "beta_slow is 0.0"),
        (lambda: Llama3Scaling(2.0, 64, 4.0, 4.0), "high 4.0 is not above low 4.0"),
        (lambda: LongRopeScaling((1.0, -1.0), (1.0, 1.0), 64, 2.0), "short[1] is -1.0"),
        (lambda: LongRopeScaling((1.0, 1.0), (0.0, 1.0), 64, 2.0), "long[0] is 0.0"),
        (lambda: LongRopeScaling((1.0,), (1.0,), 1, 2.0), "trained_length is 1; give at least 2"),
        (lambda: ProportionalScaling(1.5), "share is 1.5; give a number above 0 and at most 1"),
        (
            lambda: rotary_frequencies(8, scaling=LongRopeScaling((1.0,), (1.0,), 64, 2.0)),
            "1 factors for 4 pairs of features",
        ),
        (lambda: rotary_frequencies(2, scaling=NTKScaling(2.0)), "two features turn"),
    ],
)
def test_what_cannot_be_used_is_named(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=r"^scaling rotary frequencies: ") as caught:
        make()
    assert message in str(caught.value)
