"""What the adapter says about scaled_dot_product_attention gives the kernel's own output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attnscope.calls.tolerance import replay
from attnscope.capture.adapters.sdpa import ScaledDotProductAttention
from attnscope.capture.interceptor import Handler, Interceptor
from attnscope.capture.kernel import KernelCall
from tests.capture.adapters.replaying import error_of, operands

B, H, T, S, D, V = 3, 4, 5, 7, 8, 6


def call(*args: Any, **kwargs: Any) -> KernelCall:
    function = F.scaled_dot_product_attention
    output = function(*args, **kwargs)
    (kernel,) = ScaledDotProductAttention().read(function, args, kwargs, output)
    assert kernel.output is output or output.is_nested
    return kernel


def qkv(heads: int = H, kv_heads: int = H, lead: tuple[int, ...] = (B,)) -> tuple[Tensor, ...]:
    return (
        torch.randn(*lead, heads, T, D),
        torch.randn(*lead, kv_heads, S, D),
        torch.randn(*lead, kv_heads, S, V),
    )


def exact(kernel: KernelCall) -> bool:
    return error_of(kernel) < replay(kernel.q.dtype, S, D)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((T, S), "custom"),
        ((B, 1, T, S), "custom"),
        ((1, H, T, S), "custom"),
        ((B, 1, 1, S), "padding"),
    ],
)
def test_boolean_masks(shape: tuple[int, ...], kind: str) -> None:
    mask = torch.rand(shape) > 0.4
    mask[..., 2] = True
    kernel = call(*qkv(), mask)
    assert exact(kernel)
    assert kernel.recipe.mask.kind == kind
    assert kernel.recipe.bias is None


def test_float_masks_are_split_into_mask_and_bias() -> None:
    bias = torch.randn(1, H, T, S)
    hidden = torch.rand(B, 1, T, S) > 0.7
    hidden[..., 0] = False
    kernel = call(*qkv(), attn_mask=(bias.expand(B, H, T, S)).masked_fill(hidden, -torch.inf))
    recipe = kernel.recipe
    assert exact(kernel)
    assert torch.equal(recipe.mask.dense(T, S).expand(B, H, T, S), ~hidden.expand(B, H, T, S))
    assert recipe.bias is not None
    assert torch.equal(
        recipe.bias.expand(B, H, T, S)[~hidden.expand(B, H, T, S)],
        bias.expand(B, H, T, S)[~hidden.expand(B, H, T, S)],
    )


@pytest.mark.parametrize("fill", [-torch.inf, torch.finfo(torch.float32).min, -1e9, -1e4])
@pytest.mark.parametrize("empty", [False, True])
def test_fills_of_float_masks(*, fill: float, empty: bool) -> None:
    hidden = torch.ones(T, S, dtype=torch.bool).triu(1 - empty)
    kernel = call(*qkv(), torch.zeros(T, S).masked_fill(hidden, fill))
    recipe = kernel.recipe
    rounding = 1e4 * torch.finfo(torch.float32).eps if fill == -1e4 and empty else 0.0
    assert error_of(kernel) < replay(kernel.q.dtype, S, D) + rounding
    assert recipe.unknown == ()
    shown = recipe.mask.dense(T, S)[0, 0, 1:]
    assert torch.equal(shown, ~hidden[1:])
    expected = {-1e4: "zero", -torch.inf: "zero"}.get(fill, "uniform") if empty else "zero"
    assert recipe.empty_row == expected


def test_empty_rows_of_two_kinds_are_unknown() -> None:
    mask = torch.zeros(T, S)
    mask[0] = -torch.inf
    mask[1] = torch.finfo(torch.float32).min
    assert call(*qkv(), mask).recipe.unknown == ("empty-row",)


def test_causal_stays_a_rule() -> None:
    kernel = call(*qkv(), is_causal=True, scale=0.3)
    mask = kernel.recipe.mask
    assert exact(kernel)
    assert (mask.causal, mask.tensor, mask.kind) == ("top-left", None, "causal")
    assert kernel.recipe.scale == 0.3
    assert kernel.held == ()


def test_causal_beside_a_mask() -> None:
    q, k, _ = qkv()
    kernel = call(q, k, k, torch.rand(B, 1, 1, S) > 0.4, is_causal=True)
    assert exact(kernel)
    assert kernel.recipe.mask.kind == "causal+padding"


def test_grouped_heads() -> None:
    kernel = call(*qkv(4, 2), enable_gqa=True)
    assert exact(kernel)
    assert (kernel.recipe.group, kernel.recipe.expansion) == (2, "enable_gqa")
    kernel = call(*qkv(4, 1))
    assert exact(kernel)
    assert (kernel.recipe.group, kernel.recipe.expansion) == (4, "broadcast")


@pytest.mark.parametrize(
    "mask", [(T, S), (1, 1, T, S), (3, 1, T, S), (2, 1, H, T, S), (2, 3, 1, 1, S)]
)
def test_more_leading_axes_are_batch(mask: tuple[int, ...]) -> None:
    kernel = call(*qkv(lead=(2, 3)), torch.rand(mask) > 0.3)
    assert exact(kernel)
    assert operands(kernel)[0].shape == (6, H, T, D)
    if len(mask) < 5:
        assert exact(call(*qkv(lead=(5, 2, 3)), torch.rand(mask) > 0.3))


def test_without_heads() -> None:
    q, k, v = qkv()
    mask = torch.rand(B, T, S) > 0.3
    kernel = call(q[:, 0], k[:, 0], v[:, 0], mask)
    assert exact(kernel)
    assert operands(kernel)[0].shape == (B, 1, T, D)
    assert exact(call(q[0, 0], k[0, 0], v[0, 0], mask[0]))
    assert exact(call(q[0, 0], k[0, 0], v[0, 0], is_causal=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_types(dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in qkv())
    assert exact(call(q, k, v, is_causal=True))


def test_the_operator_is_seen_in_all_forms() -> None:
    found: list[KernelCall] = []
    adapter = ScaledDotProductAttention()

    def handle(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = function(*args, **kwargs)
        found.extend(adapter.read(function, args, kwargs, output))
        return output

    def follow(function: Callable[..., Any], _kind: Any, args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    q, k, v = qkv()
    handlers: dict[Callable[..., Any], Handler] = dict.fromkeys(adapter.functions(), handle)
    with Interceptor(follow, handlers):
        for function in adapter.functions():
            function(q, k, v, dropout_p=0.0, is_causal=True)
    assert len(found) == 3
    assert all(exact(kernel) for kernel in found)


def test_dropout_is_named() -> None:
    kernel = call(*qkv(), dropout_p=0.25)
    assert kernel.dropout == kernel.recipe.dropout == 0.25


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout: torch.layout) -> None:
    def nested(*lengths: int) -> Tensor:
        if layout == torch.strided:
            return torch.nested.nested_tensor([torch.randn(H, n, D) for n in lengths])
        parts = [torch.randn(n, H, D) for n in lengths]
        return torch.nested.nested_tensor(parts, layout=layout).transpose(1, 2)

    x = nested(3, 5, 2)
    kernel = call(x, x, x)
    assert kernel.q.shape == (3, H, 5, D)
    assert exact(kernel)
    assert kernel.recipe.mask.kind == "padding"


def test_a_mask_without_values_is_unknown() -> None:
    with torch.device("meta"):
        kernel = call(*qkv(), torch.ones(T, S, dtype=torch.bool))
    assert kernel.recipe.unknown == ("mask", "bias")


def test_a_mask_that_changed_is_noticed() -> None:
    mask = torch.ones(T, S, dtype=torch.bool)
    kernel = call(*qkv(), mask)
    kernel.held[0].freeze()
    mask.zero_()
    assert kernel.recipe.mask.kind == "none"


@pytest.mark.parametrize(
    ("biased", "kind"), [(causal_upper_left, "causal"), (causal_lower_right, "causal-bottom-right")]
)
def test_a_causal_bias_starts_at_its_corner(biased: Callable[..., Any], kind: str) -> None:
    kernel = call(*qkv(), biased(T, S))
    assert exact(kernel)
    assert kernel.recipe.mask.kind == kind
