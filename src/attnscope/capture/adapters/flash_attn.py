"""flash-attn's Python functions: `flash_attn_func`, packed, variable-length and cached forms.

Their convention: (batch, tokens, heads, dim), packed sequences (tokens, heads, dim) with cumulative
lengths; `causal` and `window_size` count from the bottom-right corner; the score is scaled, capped,
then ALiBi is added. A row that sees nothing gives zeros. Packed sequences are one sample whose
documents don't see each other. Two forms are not read: a paged cache without
`flash_attn_with_kvcache`, and rotary angles over a cache with left padding.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.capture.adapters.arguments import bind_python
from attnscope.capture.adapters.band import Band, distances, document_distances, linear_bias
from attnscope.capture.adapters.kv_cache import read_cache
from attnscope.capture.kernel import KernelCall
from attnscope.capture.rebinding import original_of

__all__ = ["FlashAttention"]

_NAMES = (
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_kvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_with_kvcache",
)
_DENSE = ("batch", "tokens", "heads", "dim")
_PACKED = ("tokens", "heads", "dim")


class FlashAttention:
    """Reads calls of the functions of the package flash_attn."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the functions of the package, if it has been imported."""
        package = sys.modules.get("flash_attn")
        found = (getattr(package, name, None) for name in _NAMES)
        return tuple(original_of(function) for function in found if function is not None)

    def read(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> tuple[KernelCall, ...]:
        """Return the one attention of the call; none of a form that is not read."""
        given = {"dropout_p": 0.0, "softcap": 0.0, "alibi_slopes": None}
        given |= bind_python(function, args, kwargs)
        out = output[0] if isinstance(output, tuple) else output
        if "k_cache" in given:
            turned_behind_padding = (
                given["rotary_cos"] is not None and given["cache_leftpad"] is not None
            )
            return () if turned_behind_padding else (_read_cached(given, out),)
        q, k, v = _unpacked(given)
        if given.get("block_table") is not None:
            return ()
        starts = _starts(given)
        return (
            _read_dense(q, k, v, out, given)
            if starts is None
            else _read_packed(q, k, v, out, starts, given),
        )


def _unpacked(given: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k, v, taken from packed ones (…, 3 or 2, heads, dim) where they are."""
    if "qkv" in given:
        q, k, v = given["qkv"].unbind(-3)
        return q, k, v
    if "kv" in given:
        k, v = given["kv"].unbind(-3)
        return given["q"], k, v
    return given["q"], given["k"], given["v"]


def _starts(given: Mapping[str, Any]) -> tuple[Held, Held] | None:
    """Return the cumulative lengths of queries and keys of packed sequences."""
    if "cu_seqlens" in given:
        return Held(given["cu_seqlens"]), Held(given["cu_seqlens"])
    if "cu_seqlens_q" in given:
        return Held(given["cu_seqlens_q"]), Held(given["cu_seqlens_k"])
    return None


def _plain_recipe(q: Tensor, k: Tensor, given: Mapping[str, Any]) -> Recipe:
    scale = given["softmax_scale"]
    heads, kv_heads = q.shape[-2], k.shape[-2]
    return Recipe(
        scale=1 / math.sqrt(q.shape[-1]) if scale is None else float(scale),
        softcap=given["softcap"] or None,
        dropout=given["dropout_p"],
        group=heads // kv_heads,
        expansion="none" if heads == kv_heads else "enable_gqa",
        empty_row="zero",
    )


def _read_dense(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, given: Mapping[str, Any]
) -> KernelCall:
    slopes = _slopes(given)
    sizes = q.shape[1], k.shape[1]
    base = replace(_plain_recipe(q, k, given), mask=Band.of(given).mask(*sizes))

    def read_recipe() -> Recipe:
        if not slopes:
            return base
        where = distances(*sizes).to(slopes[0].raw.device)
        return replace(base, bias=linear_bias(slopes[0].tensor, where))

    return KernelCall(
        kind="flash_attn",
        q=q,
        k=k,
        v=v,
        output=output,
        read_recipe=read_recipe,
        held=slopes,
        dropout=base.dropout,
        axes=_DENSE,
    )


def _read_packed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    starts: tuple[Held, Held],
    given: Mapping[str, Any],
) -> KernelCall:
    slopes = _slopes(given)
    base = _plain_recipe(q, k, given)
    band = Band.of(given)

    def read_recipe() -> Recipe:
        if not has_values(starts[0].raw):
            return replace(base, unknown=("mask", "bias"))
        same, where, sequence = document_distances(*(held.tensor for held in starts))
        mask = Mask.from_tensor(same & band.shows(where))
        bias = linear_bias(slopes[0].tensor, where * same, sequence) if slopes else None
        return replace(base, mask=mask, bias=bias)

    return KernelCall(
        kind="flash_attn",
        q=q,
        k=k,
        v=v,
        output=output,
        read_recipe=read_recipe,
        held=(*starts, *slopes),
        dropout=base.dropout,
        axes=_PACKED,
    )


@torch.no_grad()
def _read_cached(given: Mapping[str, Any], output: Tensor) -> KernelCall:
    """Read a step with a cache, which by now holds the new keys as well."""
    band = Band.of(given)
    cache = read_cache(given, turns=band.limits)
    slopes = _slopes(given)
    base = _plain_recipe(cache.q, cache.k, given)
    queries, keys = cache.q.shape[1], cache.k.shape[1]

    def read_recipe() -> Recipe:
        where = distances(queries, keys, cache.lengths)
        key = torch.arange(keys, device=where.device)
        counted = (key < cache.lengths[:, None, None, None]) & (
            key >= cache.padding[:, None, None, None]
        )
        bias = linear_bias(slopes[0].tensor, where * counted) if slopes else None
        return replace(base, mask=Mask.from_tensor(counted & band.shows(where)), bias=bias)

    return KernelCall(
        kind="flash_attn",
        q=cache.q,
        k=cache.k,
        v=cache.v,
        output=output,
        read_recipe=read_recipe,
        held=slopes,
        axes=_DENSE,
    )


def _slopes(given: Mapping[str, Any]) -> tuple[Held, ...]:
    return () if given["alibi_slopes"] is None else (Held(given["alibi_slopes"]),)
