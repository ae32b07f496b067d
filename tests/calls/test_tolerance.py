from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.calls.tolerance import largest_relative, replay, rounding, unit_roundoff

INF, NAN = float("inf"), float("nan")


def test_unit_roundoff_is_half_the_spacing_at_one() -> None:
    assert unit_roundoff(torch.float32) == 2**-24
    assert unit_roundoff(torch.bfloat16) == 2**-8
    assert rounding(torch.float16, steps=2) == 2**-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("length", "width"), [(64, 16), (333, 64), (1024, 32)])
def test_fused_kernels_stay_within_the_bound(dtype: torch.dtype, length: int, width: int) -> None:
    q, k, v = (torch.randn(1, 2, length, width).to(dtype) for _ in "qkv")
    recipe = Recipe(width**-0.5, Mask.causal_mask("top-left", length, length))
    error = largest_relative(
        F.scaled_dot_product_attention(q, k, v, is_causal=True),
        recipe.context(q, k, v, torch.float64),
    )
    assert 0 < error < replay(dtype, length, width)


def test_the_bound_is_tight_enough_to_see_a_wrong_scale() -> None:
    q, k, v = (torch.randn(1, 2, 64, 16) for _ in "qkv")
    wrong = Recipe(16**-0.5 * 1.001).context(q, k, v)
    right = F.scaled_dot_product_attention(q, k, v)
    assert largest_relative(wrong, right) > replay(torch.float32, 64, 16)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([0.0, NAN, INF], [-0.0, NAN, INF], 0.0),
        ([1.0, 4.0], [2.0, 4.0], 0.25),
        ([NAN, 1.0], [0.0, 1.0], INF),
        ([INF], [-INF], INF),
        ([INF], [1.0], INF),
        ([NAN, 1.5], [NAN, 1.0], 0.5),
        ([], [], 0.0),
        ([1.0], [1.0, 1.0], INF),
    ],
)
def test_largest_relative(a: list[float], b: list[float], expected: float) -> None:
    assert largest_relative(torch.tensor(a), torch.tensor(b)) == expected


def test_one_bit_is_not_zero() -> None:
    b = torch.tensor([1.0])
    assert largest_relative(torch.nextafter(b, b + 1), b) == 2**-23
