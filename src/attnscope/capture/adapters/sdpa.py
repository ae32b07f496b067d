"""`F.scaled_dot_product_attention`.

Its convention is attnscope's own: (batch, heads, tokens, dim), boolean mask True = may attend, a
float mask is added, `is_causal` starts at the top-left corner. A row that sees nothing gives zeros.
More leading axes are batch; without a fourth axis there is one head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.capture.adapters.additive import read_additive
from attnscope.capture.adapters.arguments import Signature, has_values
from attnscope.capture.adapters.nested import lengths_of, padded, padding_mask
from attnscope.capture.kernel import Axes, KernelCall

__all__ = ["ScaledDotProductAttention"]

_SIGNATURE = Signature(
    "query key value",
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
)


class ScaledDotProductAttention:
    """Reads calls of `F.scaled_dot_product_attention`."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the one function."""
        return (functional.scaled_dot_product_attention,)

    def read(
        self,
        function: Callable[..., Any],  # noqa: ARG002  there is only one
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> tuple[KernelCall, ...]:
        """Return the one attention of the call."""
        given = _SIGNATURE.bind(args, kwargs)
        if given["query"].is_nested:
            return (_read_nested(given, output),)
        return (_read_dense(given, output),)


def _read_dense(given: Mapping[str, Any], output: Tensor) -> KernelCall:
    q, k, mask = given["query"], given["key"], given["attn_mask"]
    axes = axes_of(output.dim())
    queries, keys = q.shape[-2], k.shape[-2]
    lead = tuple(output.shape[:-3]) if output.dim() > 3 else tuple(output.shape[:-2])  # noqa: PLR2004
    base = replace(
        _simple_recipe(given),
        mask=Mask.causal_mask("top-left", queries, keys) if given["is_causal"] else Mask.nothing(),
    )

    def read_recipe(arguments: tuple[Tensor, ...]) -> Recipe:
        return _with_mask(base, arguments[0], lead, queries, keys) if arguments else base

    return KernelCall(
        kind="sdpa",
        q=q,
        k=k,
        v=given["value"],
        output=output,
        read_recipe=read_recipe,
        arguments=() if mask is None else (mask,),
        dropout=given["dropout_p"],
        axes=axes,
    )


def _read_nested(given: Mapping[str, Any], output: Tensor) -> KernelCall:
    """Read nested tensors as padded ones whose padding sees nothing and is not seen."""
    lengths = tuple(lengths_of(given[name], axis=-2) for name in ("query", "key"))
    q, k, v, out = (padded(x) for x in (given["query"], given["key"], given["value"], output))
    base = _simple_recipe({**given, "query": q, "key": k})
    queries, keys, is_causal = q.shape[-2], k.shape[-2], given["is_causal"]

    def read_recipe(arguments: tuple[Tensor, ...]) -> Recipe:
        mask = padding_mask(*arguments, queries, keys)
        if is_causal:
            mask = Mask.causal_mask("top-left", queries, keys) & mask
        return replace(base, mask=mask)

    return KernelCall(
        kind="sdpa",
        q=q,
        k=k,
        v=v,
        output=out,
        read_recipe=read_recipe,
        arguments=lengths,
        dropout=given["dropout_p"],
    )


def axes_of(dimensions: int) -> Axes:
    """Return the names of the axes of a tensor with so many."""
    if dimensions <= 3:  # noqa: PLR2004  no axis of heads
        return ("batch", "tokens", "dim")[3 - dimensions :]
    return (*("batch",) * (dimensions - 3), "heads", "tokens", "dim")


def _simple_recipe(given: Mapping[str, Any]) -> Recipe:
    """Return what the plain arguments say: scale, dropout and how kv heads are met."""
    q, k = given["query"], given["key"]
    has_heads = q.dim() > 3  # noqa: PLR2004  fewer: no axis of heads
    heads, kv_heads = (q.shape[-3], k.shape[-3]) if has_heads else (1, 1)
    group = heads // max(kv_heads, 1)
    expansion = "none"
    if group > 1:
        expansion = "enable_gqa" if given["enable_gqa"] else "broadcast"
    scale = given["scale"]
    return Recipe(
        scale=1 / math.sqrt(q.shape[-1]) if scale is None else float(scale),
        dropout=given["dropout_p"],
        group=group,
        expansion=expansion,
        empty_row="zero",
    )


def _with_mask(
    recipe: Recipe, mask: Tensor, lead: tuple[int, ...], queries: int, keys: int
) -> Recipe:
    if not has_values(mask):
        return replace(recipe, unknown=("mask", "bias"))
    canonical = _canonical(mask, lead)
    if mask.dtype == torch.bool:
        return replace(recipe, mask=recipe.mask & Mask.from_tensor(canonical, queries, keys))
    reading = read_additive(canonical, queries, keys)
    return replace(
        recipe,
        mask=recipe.mask & reading.mask,
        bias=reading.bias,
        empty_row=reading.empty_row,
        unknown=reading.unknown,
    )


def _canonical(mask: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Return a mask (…, queries, keys) as (batch or 1, heads or 1, queries or 1, keys or 1).

    lead: sizes of the axes of the call that are batch.
    """
    mask = mask.detach()
    has_heads = mask.dim() > len(lead) + 2 or len(lead) != 1
    if not has_heads:
        mask = mask.unsqueeze(-3)
    while mask.dim() < len("bhqk"):
        mask = mask.unsqueeze(0)
    if mask.dim() == len("bhqk"):
        return mask
    return mask.expand(*lead, *mask.shape[-3:]).flatten(0, -4)
