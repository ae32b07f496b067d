"""What the adapters say about torch.nn's fused inference operators gives their own output."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.calls.tolerance import replay
from attnscope.capture.adapters.encoder_layer import EncoderLayer
from attnscope.capture.adapters.native_mha import NativeMultiheadAttention
from attnscope.capture.interceptor import Handler, Interceptor
from attnscope.capture.kernel import Adapter, KernelCall
from attnscope.capture.torchnn import patched_modules
from tests.capture.adapters.replaying import error_of

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")

B, T, E, H = 3, 7, 16, 4


@contextlib.contextmanager
def reading(adapter: Adapter) -> Iterator[list[KernelCall]]:
    found: list[KernelCall] = []

    def handle(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = function(*args, **kwargs)
        found.extend(adapter.read(function, args, kwargs, output))
        return output

    def follow(function: Callable[..., Any], _kind: Any, args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    handlers: dict[Callable[..., Any], Handler] = dict.fromkeys(adapter.functions(), handle)
    with torch.no_grad(), patched_modules(), Interceptor(follow, handlers):
        yield found


def causal() -> Tensor:
    return torch.ones(T, T, dtype=torch.bool).triu(1)


def padding(*lengths: int) -> Tensor:
    return torch.arange(T) >= torch.tensor(lengths)[:, None]


def exact(kernel: KernelCall) -> bool:
    return error_of(kernel) < replay(kernel.q.dtype, T, E // H)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    ("masks", "kind"),
    [
        ({}, "none"),
        ({"attn_mask": causal()}, "causal"),
        ({"key_padding_mask": padding(7, 4, 5)}, "padding"),
        ({"key_padding_mask": padding(7, 4, 5), "attn_mask": causal()}, "causal+padding"),
        ({"attn_mask": causal().repeat(B * H, 1, 1)}, "causal"),
        ({"key_padding_mask": padding(7, 0, 5)}, "padding"),
    ],
)
def test_multihead_attention(masks: dict[str, Tensor], kind: str, dtype: torch.dtype) -> None:
    module = nn.MultiheadAttention(E, H, batch_first=True, dtype=dtype).eval()
    nn.init.normal_(module.in_proj_bias)
    nn.init.normal_(module.out_proj.bias)
    x = torch.randn(B, T, E, dtype=dtype)
    with reading(NativeMultiheadAttention()) as found:
        output, weights = module(x, x, x, average_attn_weights=False, **masks)
    (kernel,) = found
    assert exact(kernel)
    assert kernel.output is output
    recipe = kernel.recipe
    assert recipe.mask.kind == kind
    again = recipe.weights(kernel.q, kernel.k)
    torch.testing.assert_close(again, weights, equal_nan=True, rtol=2e-2, atol=2e-3)


def test_different_inputs() -> None:
    module = nn.MultiheadAttention(E, H, batch_first=True).eval()
    q, k, v = torch.randn(3, B, T, E)
    parameters = (
        module.in_proj_weight,
        module.in_proj_bias,
        module.out_proj.weight,
        module.out_proj.bias,
    )
    with reading(NativeMultiheadAttention()) as found:
        torch._native_multi_head_attention(q, k, v, E, H, *parameters)
    assert exact(found[0])


def test_any_number_in_a_float_mask_forbids() -> None:
    module = nn.MultiheadAttention(E, H, batch_first=True).eval()
    x = torch.randn(B, T, E)
    bias = torch.rand(T, T).masked_fill(torch.eye(T, dtype=torch.bool), 0.0)
    bias[:, 2] = 0.0
    with reading(NativeMultiheadAttention()) as found:
        torch._native_multi_head_attention(
            x,
            x,
            x,
            E,
            H,
            module.in_proj_weight,
            module.in_proj_bias,
            module.out_proj.weight,
            module.out_proj.bias,
            mask=bias,
            mask_type=0,
        )
    assert exact(found[0])
    assert torch.equal(found[0].recipe.mask.dense(T, T)[0, 0], bias == 0)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("masks", "kind"),
    [
        ({}, "none"),
        ({"src_mask": causal()}, "causal"),
        ({"src_key_padding_mask": padding(7, 4, 5)}, "padding"),
        ({"src_key_padding_mask": padding(7, 4, 5), "src_mask": causal()}, "causal+padding"),
    ],
)
def test_encoder_layer(
    *, norm_first: bool, activation: str, masks: dict[str, Tensor], kind: str
) -> None:
    layer = nn.TransformerEncoderLayer(
        E, H, 20, activation=activation, norm_first=norm_first, batch_first=True
    ).eval()
    for parameter in layer.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    with reading(EncoderLayer()) as found:
        output = layer(torch.randn(B, T, E), **masks)
    (kernel,) = found
    assert kernel.output is output
    assert exact(kernel)
    assert kernel.recipe.mask.kind == kind


def test_nested_encoder() -> None:
    layer = nn.TransformerEncoderLayer(E, H, 20, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(B, T, E)
    with reading(EncoderLayer()) as found:
        output = encoder(x, src_key_padding_mask=padding(5, 4, 2))
    assert len(found) == 2
    assert all(exact(kernel) for kernel in found)
    assert found[0].q.shape == (B, H, 5, E // H)
    assert torch.equal(found[1].output, output[:, :5])
    assert found[0].recipe.mask.kind == "padding"


def test_the_parameters_are_kept() -> None:
    layer = nn.TransformerEncoderLayer(E, H, 20, batch_first=True).eval()
    with reading(EncoderLayer()) as found:
        layer(torch.randn(B, T, E))
    for held in found[0].held:
        held.freeze()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    assert exact(found[0])
