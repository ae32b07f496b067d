"""What the adapter says about flash-attn's functions gives their own output."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.calls.tolerance import replay
from attnscope.capture.adapters.flash_attn import FlashAttention
from attnscope.capture.kernel import KernelCall
from tests.capture.adapters.replaying import error_of, operands

B, T, S, H, D = 2, 5, 7, 4, 8

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"softmax_scale": 0.7},
    "causal": {"causal": True},
    "window": {"window_size": (2, 1)},
    "causal window": {"causal": True, "window_size": (2, 0)},
    "left only": {"window_size": (1, -1)},
    "capped": {"softcap": 3.0},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 0.0625]), "causal": True},
    "alibi per sample": {"alibi_slopes": torch.rand(B, H), "softcap": 2.0},
}


@pytest.fixture
def package(stand_in: Callable[[str], ModuleType]) -> ModuleType:
    return stand_in("flash_attn")


def read(function: Callable[..., Any], *args: Any, **kwargs: Any) -> KernelCall:
    output = function(*args, **kwargs)
    (kernel,) = FlashAttention().read(function, args, kwargs, output)
    assert error_of(kernel) < replay(kernel.q.dtype, S, D)
    return kernel


def test_without_the_package_there_is_nothing_to_read() -> None:
    assert FlashAttention().functions() == ()


def test_all_functions_are_read(package: ModuleType) -> None:
    assert len(FlashAttention().functions()) == 7
    assert package.flash_attn_func in FlashAttention().functions()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("queries", "keys", "kv_heads"), [(T, S, 4), (S, S, 2), (S, T, 1)])
def test_dense(
    package: ModuleType, options: dict[str, Any], queries: int, keys: int, kv_heads: int
) -> None:
    q, (k, v) = torch.randn(B, queries, H, D), torch.randn(2, B, keys, kv_heads, D)
    kernel = read(package.flash_attn_func, q, k, v, **options)
    assert operands(kernel)[1].shape == (B, kv_heads, keys, D)
    assert kernel.q is q
    kernel = read(package.flash_attn_kvpacked_func, q, torch.stack([k, v], 2), **options)
    assert kernel.recipe.group == H // kv_heads


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_packed_projections(package: ModuleType, options: dict[str, Any]) -> None:
    read(package.flash_attn_qkvpacked_func, torch.randn(B, T, 3, H, D), **options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_variable_length(package: ModuleType, options: dict[str, Any]) -> None:
    starts_q = torch.tensor([0, 3, 8], dtype=torch.int32)
    starts_k = torch.tensor([0, 4, 11], dtype=torch.int32)
    q, (k, v) = torch.randn(8, H, D), torch.randn(2, 11, 2, D)
    kernel = read(package.flash_attn_varlen_func, q, k, v, starts_q, starts_k, 5, 7, **options)
    assert operands(kernel)[0].shape == (1, H, 8, D)
    kv = torch.stack([k, v], 1)
    read(package.flash_attn_varlen_kvpacked_func, q, kv, starts_q, starts_k, 5, 7, **options)
    qkv = torch.randn(8, 3, H, D)
    kernel = read(package.flash_attn_varlen_qkvpacked_func, qkv, starts_q, 5, **options)
    if options in ({}, {"causal": True}):
        assert "documents" in kernel.recipe.mask.kinds


def test_a_paged_packed_call_is_not_read(package: ModuleType) -> None:
    starts = torch.tensor([0, 3, 8], dtype=torch.int32)
    args = (*torch.randn(3, 8, H, D), starts, starts, 5, 5)
    kwargs = {"block_table": torch.zeros(2, 1, dtype=torch.int32)}
    output = package.flash_attn_varlen_func(*args, **kwargs)
    assert FlashAttention().read(package.flash_attn_varlen_func, args, kwargs, output) == ()


def test_rotary_angles_behind_left_padding_are_not_read(package: ModuleType) -> None:
    q, (k, v) = torch.randn(B, 1, H, D), torch.randn(2, B, 1, 2, D)
    kwargs = {
        "rotary_cos": torch.rand(8, 3),
        "rotary_sin": torch.rand(8, 3),
        "cache_seqlens": 5,
        "cache_leftpad": torch.tensor([2, 0], dtype=torch.int32),
    }
    args = (q, *torch.randn(2, B, 8, 2, D), k, v)
    step = package.flash_attn_with_kvcache
    assert FlashAttention().read(step, args, kwargs, step(*args, **kwargs)) == ()


def test_further_outputs(package: ModuleType) -> None:
    q, k, v = torch.randn(3, B, T, H, D)
    kernel = read(package.flash_attn_func, q, k, v, return_attn_probs=True)
    assert isinstance(kernel.output, Tensor)


def test_dropout_is_named(package: ModuleType) -> None:
    args = tuple(torch.randn(3, B, T, H, D))
    output = package.flash_attn_func(*args, 0.2)
    (kernel,) = FlashAttention().read(package.flash_attn_func, (*args, 0.2), {}, output)
    assert kernel.dropout == kernel.recipe.dropout == 0.2


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("new", [0, 1, 3])
@pytest.mark.parametrize("rotary", [None, True, False])
def test_with_a_cache(
    *, package: ModuleType, options: dict[str, Any], new: int, rotary: bool | None
) -> None:
    cache = torch.randn(2, 4, 12, 2, D)
    extra: dict[str, Any] = {"cache_batch_idx": torch.tensor([2, 0])}
    if new:
        extra["k"], extra["v"] = torch.randn(2, B, new, 2, D)
        if rotary is not None:
            angles = torch.rand(12, 3)
            extra |= {"rotary_cos": angles.cos(), "rotary_sin": angles.sin()}
            extra["rotary_interleaved"] = rotary
    q = torch.randn(B, new or 2, H, D)
    lengths = torch.tensor([4, 6], dtype=torch.int32)
    kernel = read(
        package.flash_attn_with_kvcache, q, *cache, cache_seqlens=lengths, **extra, **options
    )
    assert kernel.k.shape[1] == 6 + new
    cache.zero_()
    assert kernel.k.abs().min() > 0


def test_caches_of_other_forms(package: ModuleType) -> None:
    q = torch.randn(B, 2, H, D)
    step = package.flash_attn_with_kvcache
    read(step, q, *torch.randn(2, B, 6, 2, D), causal=True)
    read(step, q, *torch.randn(2, B, 6, 2, D), cache_seqlens=5, return_softmax_lse=True)
    pages = torch.tensor([[3, 0], [1, 4]], dtype=torch.int32)
    lengths = torch.tensor([7, 5], dtype=torch.int32)
    read(step, q, *torch.randn(2, 5, 4, 2, D), cache_seqlens=lengths, block_table=pages)
    padding = torch.tensor([2, 0], dtype=torch.int32)
    cache = torch.randn(2, B, 8, 2, D)
    kernel = read(step, q, *cache, cache_seqlens=lengths, cache_leftpad=padding, causal=True)
    assert not kernel.recipe.mask.dense(2, 7)[0, ..., :2].any()
