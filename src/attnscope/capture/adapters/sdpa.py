"""`F.scaled_dot_product_attention`.

Its convention is attnscope's own: (batch, heads, tokens, dim), boolean mask True = may attend, a
float mask is added, `is_causal` starts at the top-left corner. A row that sees nothing gives zeros.
More leading axes are batch; without a fourth axis there is one head.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Alignment, Mask
from attnscope.calls.recipe import Recipe
from attnscope.capture.adapters.additive import read_additive
from attnscope.capture.adapters.arguments import Signature
from attnscope.capture.adapters.nested import lengths_of, padded, padding_mask
from attnscope.capture.kernel import Axes, KernelCall

__all__ = ["ScaledDotProductAttention"]

_CORNERS: Mapping[str, Alignment] = {"UPPER_LEFT": "top-left", "LOWER_RIGHT": "bottom-right"}

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
        """Return the function, and the operator behind it in its two forms."""
        operator = torch.ops.aten.scaled_dot_product_attention
        return (functional.scaled_dot_product_attention, operator, operator.default)

    def read(
        self,
        function: Callable[..., Any],  # noqa: ARG002  all take the same
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
    corner = _corner(mask)
    if corner is not None:
        mask = None
    axes = axes_of(output.dim())
    queries, keys = q.shape[-2], k.shape[-2]
    has_heads = "heads" in axes
    lead = tuple(output.shape[: axes.count("batch")])
    base = replace(
        _simple_recipe(given),
        mask=Mask.nothing(),
    )
    if corner is not None or given["is_causal"]:
        base = replace(base, mask=Mask.causal_mask(corner or "top-left", queries, keys))

    held = () if mask is None else (Held(mask),)

    def read_recipe() -> Recipe:
        if not held:
            return base
        mask = held[0].tensor
        if not has_values(mask):
            return replace(base, unknown=("mask", "bias"))
        return _with_mask(base, _canonical(mask, lead, has_heads=has_heads), queries, keys)

    return KernelCall(
        kind="sdpa",
        q=q,
        k=k,
        v=given["value"],
        output=output,
        read_recipe=read_recipe,
        held=held,
        dropout=given["dropout_p"],
        axes=axes,
    )


def _read_nested(given: Mapping[str, Any], output: Tensor) -> KernelCall:
    """Read nested tensors as padded ones whose padding sees nothing and is not seen."""
    lengths = lengths_of(given["query"], axis=-2), lengths_of(given["key"], axis=-2)
    q, k, v, out = (padded(x) for x in (given["query"], given["key"], given["value"], output))
    base = _simple_recipe({**given, "query": q, "key": k})
    queries, keys, is_causal = q.shape[-2], k.shape[-2], given["is_causal"]

    def read_recipe() -> Recipe:
        mask = padding_mask(*lengths, queries, keys)
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
        dropout=given["dropout_p"],
    )


def axes_of(dimensions: int) -> Axes:
    """Return the names of the axes of a tensor with so many."""
    if dimensions <= 3:
        return ("batch", "tokens", "dim")[3 - dimensions :]
    return (*("batch",) * (dimensions - 3), "heads", "tokens", "dim")


def _simple_recipe(given: Mapping[str, Any]) -> Recipe:
    """Return what the plain arguments say: scale, dropout and how kv heads are met."""
    q, k = given["query"], given["key"]
    has_heads = q.dim() > 3
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


def _corner(mask: object) -> Alignment | None:
    """Return the corner that a `CausalBias` starts at: it holds no values; None: it is none.

    Its module loads the compiler, which takes longer than a check: it is not imported for this.
    """
    module = sys.modules.get("torch.nn.attention.bias")
    if module is None or not isinstance(mask, module.CausalBias):
        return None
    return _CORNERS[mask.variant.name]


def _with_mask(recipe: Recipe, mask: Tensor, queries: int, keys: int) -> Recipe:
    if mask.dtype == torch.bool:
        return replace(recipe, mask=recipe.mask & Mask.from_tensor(mask, queries, keys))
    reading = read_additive(mask, queries, keys)
    return replace(
        recipe,
        mask=recipe.mask & reading.mask,
        bias=reading.bias,
        empty_row=reading.empty_row,
        unknown=reading.unknown,
    )


def _canonical(mask: Tensor, lead: tuple[int, ...], *, has_heads: bool) -> Tensor:
    """Return a mask (…, queries, keys) as (batch or 1, heads or 1, queries or 1, keys or 1).

    lead: sizes of the axes of the call that are batch.
    """
    mask = mask.detach()
    if not has_heads and mask.dim() > 2:
        mask = mask.unsqueeze(-3)
    mask = mask[(None,) * (len(lead) + len("hqk") - mask.dim())]
    shared = mask.shape[: len(lead)].numel() == 1
    if not shared:
        mask = mask.expand(*lead, *mask.shape[-3:])
    return mask.reshape(-1, *mask.shape[-3:])
