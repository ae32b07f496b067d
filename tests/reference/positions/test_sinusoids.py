from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

from attnscope.errors import InputError
from attnscope.reference import sinusoidal, sinusoidal_at
from tests.reference.differences import ROUNDING

FLOAT32 = 1e-5
"""Angles up to 50 in float32: half a unit in the last place is 2e-6."""


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(0, 40),
    st.integers(1, 16),
    st.sampled_from([2.0, 100.0, 10000.0, 1e6]),
    st.sampled_from(["interleaved", "concatenated"]),
    st.sampled_from(["open", "closed"]),
)
def test_every_entry_is_the_formula(
    length: int, pairs: int, base: float, layout: Any, spacing: Any
) -> None:
    table = sinusoidal(length, 2 * pairs, base=base, layout=layout, spacing=spacing)
    assert table.shape == (length, 2 * pairs)
    last = pairs if spacing == "open" else max(pairs - 1, 1)
    for position in range(length):
        for pair in range(pairs):
            angle = position * base ** (-pair / last)
            sine, cosine = (
                (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, pairs + pair)
            )
            found = table[position, [sine, cosine]]
            expected = [np.sin(angle), np.cos(angle)]
            np.testing.assert_allclose(found, expected, atol=length * ROUNDING)


def test_the_concatenated_layout_is_gpt_js() -> None:
    found = sinusoidal(50, 12, layout="concatenated")
    np.testing.assert_allclose(found, create_sinusoidal_positions(50, 12), atol=FLOAT32)


@pytest.mark.parametrize("width", [2 * 2, 12])
def test_the_closed_spacing_is_fairseqs(width: int) -> None:
    expected = M2M100SinusoidalPositionalEmbedding.get_embedding(50, width)
    found = sinusoidal(50, width, layout="concatenated", spacing="closed")
    np.testing.assert_allclose(found, expected, atol=FLOAT32)


def test_the_interleaved_layout_is_that_of_the_annotated_transformer() -> None:
    table = torch.zeros(30, 8, dtype=torch.float64)
    position = torch.arange(30, dtype=torch.float64)[:, None]
    terms = torch.exp(torch.arange(0, 8, 2) * -(torch.log(torch.tensor(10000.0).double()) / 8))
    table[:, 0::2], table[:, 1::2] = torch.sin(position * terms), torch.cos(position * terms)
    np.testing.assert_allclose(sinusoidal(30, 8), table, atol=30 * ROUNDING)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_product_of_two_rows_depends_on_their_distance_alone(layout: Any) -> None:
    table = sinusoidal(20, 8, layout=layout)
    products = table @ table.T
    for distance in range(20):
        assert np.ptp(np.diagonal(products, distance)) < 20 * ROUNDING
    assert np.ptp(products[0]) > 1


def test_rows_between_two_tokens_and_of_any_shape_can_be_had() -> None:
    found = sinusoidal_at([[0.5, -2.0]], 4, base=100.0)
    assert found.shape == (1, 2, 4)
    np.testing.assert_allclose(found[0, 0], [np.sin(0.5), np.cos(0.5), np.sin(0.05), np.cos(0.05)])


@pytest.mark.parametrize(
    "change",
    [{"base": 100.0}, {"layout": "concatenated"}, {"spacing": "closed"}],
    ids=["base", "layout", "spacing"],
)
def test_each_argument_matters(change: dict[str, Any]) -> None:
    assert not np.allclose(sinusoidal(6, 8, **change), sinusoidal(6, 8), atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((4, 7), {}, "width 7 is odd, and each sine has its cosine; give 8, or 6 and pad"),
        ((4, 0), {}, "width is 0; give at least 1"),
        ((-1, 8), {}, "length is -1; give at least 0"),
        ((2.5, 8), {}, "length is 2.5; give a whole number"),
        ((True, 8), {}, "length is True; give a whole number"),
        ((4, 8), {"base": -1.0}, "base is -1.0"),
        ((4, 8), {"base": float("nan")}, "base is nan"),
        ((4, 8), {"layout": "half"}, "layout is 'half'; give 'interleaved' or 'concatenated'"),
        ((4, 8), {"spacing": "log"}, "spacing is 'log'; give 'open' or 'closed'"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=r"^making sinusoidal positions: ") as caught:
        sinusoidal(*arguments, **options)
    assert message in str(caught.value)
