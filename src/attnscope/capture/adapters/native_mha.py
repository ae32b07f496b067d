"""`torch._native_multi_head_attention`: what `nn.MultiheadAttention` runs in inference.

Its convention: inputs (batch, tokens, embed); one packed in-projection makes q, k and v; in a mask
True (for a float mask: any number but 0) = may NOT attend, and `mask_type` says what it is: 0 for
(queries, keys), 1 for padding (batch, keys), 2 for (batch, heads, queries, keys). A row that sees
nothing gives NaN. The output comes after the output projection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnscope.axes import Context
from attnscope.calls.held import Held, has_values
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.capture.adapters.arguments import Signature
from attnscope.capture.adapters.nested import lengths_of, padded, padding_mask
from attnscope.capture.kernel import KernelCall

__all__ = ["InProjection", "NativeMultiheadAttention", "join_heads", "recipe_reader", "row_keeper"]

_SIGNATURE = Signature(
    "query key value embed_dim num_head qkv_weight qkv_bias proj_weight proj_bias",
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
)
_ATTENTION_MASK, _PADDING_MASK = 0, 1


class NativeMultiheadAttention:
    """Reads calls of `torch._native_multi_head_attention`."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the one function."""
        return (torch._native_multi_head_attention,)  # noqa: SLF001  what nn.MultiheadAttention calls

    @torch.no_grad()
    def read(
        self,
        function: Callable[..., Any],  # noqa: ARG002  there is only one
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> tuple[KernelCall, ...]:
        """Return the one attention of the call, its projections made anew in the same type."""
        given = _SIGNATURE.bind(args, kwargs)
        query = given["query"]
        lengths = lengths_of(query, axis=0) if query.is_nested else None
        inputs = tuple(given[name] for name in ("query", "key", "value"))
        projection = InProjection(given["qkv_weight"], given["qkv_bias"], given["num_head"])
        q, k, v = projection(*(padded(x) if x.is_nested else x.detach() for x in inputs))
        held = (Held(given["proj_weight"]), Held(given["proj_bias"]))
        mask = None if given["mask"] is None else Held(given["mask"])
        keep_rows = row_keeper(lengths, q.shape[-2])

        def finish(context: Context) -> Tensor:
            return keep_rows(
                functional.linear(join_heads(context), *(part.tensor for part in held))
            )

        out = output[0]
        return (
            KernelCall(
                kind="mha",
                q=q,
                k=k,
                v=v,
                output=padded(out) if out.is_nested else out,
                read_recipe=recipe_reader(q, k, mask, given["mask_type"], lengths),
                held=held if mask is None else (*held, mask),
                output_axes=("batch", "tokens", "dim"),
                finish=finish,
            ),
        )


class InProjection:
    """The packed projection that makes q, k and v: weight (3 · embed, embed), bias (3 · embed)."""

    def __init__(self, weight: Tensor, bias: Tensor, heads: int) -> None:
        """Take the parameters and the number of heads that the result is split into."""
        self._weight, self._bias, self._heads = weight.detach(), bias.detach(), heads

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v (batch, heads, tokens, head_dim) of inputs (batch, tokens, embed)."""
        if query is key and key is value:
            parts = functional.linear(query, self._weight, self._bias).chunk(3, -1)
        else:
            parameters = zip(self._weight.chunk(3), self._bias.chunk(3), strict=True)
            inputs = (query, key, value)
            parts = tuple(
                functional.linear(x, weight, bias)
                for x, (weight, bias) in zip(inputs, parameters, strict=True)
            )
        q, k, v = (part.unflatten(-1, (self._heads, -1)).transpose(1, 2) for part in parts)
        return q, k, v


def join_heads(context: Context) -> Tensor:
    """Return a context (batch, heads, tokens, value_dim) as (batch, tokens, embed)."""
    return context.transpose(1, 2).flatten(-2)


def row_keeper(lengths: Tensor | None, queries: int) -> Callable[[Tensor], Tensor]:
    """Return what zeroes the rows of (batch, tokens, embed) beyond each sample's length."""
    if lengths is None:
        return lambda rows: rows
    ended = torch.arange(queries)[:, None] >= lengths[:, None, None]
    return lambda rows: rows.masked_fill(ended.to(rows.device), 0.0)


def recipe_reader(
    q: Tensor, k: Tensor, mask: Held | None, mask_type: int | None, lengths: Tensor | None
) -> Callable[[], Recipe]:
    """Return what reads the recipe of a call with this mask, its tokens ending at `lengths`."""
    scale = 1 / math.sqrt(q.shape[-1])
    sizes = q.shape[-2], k.shape[-2]

    def read_recipe() -> Recipe:
        if lengths is not None:
            return Recipe(
                scale=scale, mask=padding_mask(lengths, lengths, *sizes), empty_row="zero"
            )
        if mask is None:
            return Recipe(scale=scale)
        forbidden = mask.tensor
        if not has_values(forbidden):
            return Recipe(scale=scale, unknown=("mask",))
        if mask_type == _PADDING_MASK:
            forbidden = forbidden[:, None, None, :]
        elif mask_type == _ATTENTION_MASK:
            forbidden = forbidden[None, None]
        return Recipe(scale=scale, mask=Mask.from_tensor(~forbidden.to(torch.bool), *sizes))

    return read_recipe
