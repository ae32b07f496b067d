"""What the adapter says about xformers' attention gives its own output."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from attnscope.calls.tolerance import replay
from attnscope.capture.adapters.xformers import MemoryEfficientAttention
from attnscope.capture.kernel import KernelCall
from tests.capture.adapters.replaying import error_of, operands

B, T, S, H, D = 2, 5, 7, 4, 8


@pytest.fixture
def ops(stand_in: Callable[[str], ModuleType]) -> ModuleType:
    return stand_in("xformers.ops")


def read(ops: ModuleType, *args: Any, **kwargs: Any) -> KernelCall:
    function = ops.memory_efficient_attention
    assert MemoryEfficientAttention().functions() == (function,)
    output = function(*args, **kwargs)
    (kernel,) = MemoryEfficientAttention().read(function, args, kwargs, output)
    assert error_of(kernel) < replay(kernel.q.dtype, S, D)
    return kernel


def test_without_the_package_there_is_nothing_to_read() -> None:
    assert MemoryEfficientAttention().functions() == ()


@pytest.mark.parametrize("heads", [(), (H,), (2, 2)])
def test_layouts(ops: ModuleType, heads: tuple[int, ...]) -> None:
    q, (k, v) = torch.randn(B, T, *heads, D), torch.randn(2, B, S, *heads, D)
    kernel = read(ops, q, k, v, scale=0.4)
    assert operands(kernel)[0].shape == (B, H if heads else 1, T, D)
    assert kernel.recipe.scale == 0.4
    bias = torch.randn(B, *heads, T, S)
    recipe = read(ops, q, k, v, bias).recipe
    assert recipe.bias is not None
    assert recipe.mask.kind == "none"


@pytest.mark.parametrize(
    ("name", "corner"),
    [
        ("LowerTriangularMask", "top-left"),
        ("LowerTriangularFromBottomRightMask", "bottom-right"),
    ],
)
def test_causal_masks_stay_rules(ops: ModuleType, name: str, corner: str) -> None:
    q, (k, v) = torch.randn(B, T, H, D), torch.randn(2, B, S, H, D)
    mask = read(ops, q, k, v, getattr(ops, name)()).recipe.mask
    assert (mask.causal, mask.tensor) == (corner, None)


def test_packed_sequences(ops: ModuleType) -> None:
    q, k, v = torch.randn(3, 1, T, H, D)
    kernel = read(ops, q, k, v, attn_bias=ops.BlockDiagonalMask([2, 3]))
    assert kernel.recipe.mask.kind == "documents"


def test_an_unknown_bias_is_said_to_be_unknown(ops: ModuleType) -> None:
    q, k, v = torch.randn(3, B, T, H, D)
    function = ops.memory_efficient_attention
    (kernel,) = MemoryEfficientAttention().read(function, (q, k, v, object(), 0.1), {}, q)
    assert kernel.recipe.unknown == ("mask", "bias")
    assert kernel.dropout == 0.1
