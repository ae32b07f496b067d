"""`xformers.ops.memory_efficient_attention`.

Its convention: (batch, tokens, heads, dim), without heads (batch, tokens, dim), with groups of
heads (batch, tokens, groups, heads, dim); a bias is added, as a tensor (batch, heads, queries,
keys) or as an object that can write itself out as one. `LowerTriangularMask` starts at the top-left
corner.
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
from attnscope.capture.adapters.additive import read_additive
from attnscope.capture.adapters.arguments import bind_python
from attnscope.capture.kernel import KernelCall
from attnscope.capture.rebinding import original_of

__all__ = ["MemoryEfficientAttention"]

_AXES = {
    3: ("batch", "tokens", "dim"),
    4: ("batch", "tokens", "heads", "dim"),
    5: ("batch", "tokens", "heads", "heads", "dim"),
}
_CORNERS = {
    "LowerTriangularMask": "top-left",
    "LowerTriangularFromBottomRightMask": "bottom-right",
}


class MemoryEfficientAttention:
    """Reads calls of `xformers.ops.memory_efficient_attention`."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the function, if the package has been imported."""
        function = getattr(sys.modules.get("xformers.ops"), "memory_efficient_attention", None)
        return () if function is None else (original_of(function),)

    def read(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> tuple[KernelCall, ...]:
        """Return the one attention of the call."""
        given = bind_python(function, args, kwargs)
        q, k, bias = given["query"], given["key"], given["attn_bias"]
        scale = given["scale"]
        base = Recipe(
            scale=1 / math.sqrt(q.shape[-1]) if scale is None else float(scale),
            dropout=given["p"],
            empty_row="zero",
        )
        sizes = q.shape[1], k.shape[1]
        heads = q.shape[2:-1]
        held = (Held(bias),) if isinstance(bias, Tensor) else ()

        def read_recipe() -> Recipe:
            if bias is None:
                return base
            corner = _CORNERS.get(type(bias).__name__)
            if corner == "top-left":
                return replace(base, mask=Mask.causal_mask("top-left", *sizes))
            if corner is not None:
                return replace(base, mask=Mask.causal_mask("bottom-right", *sizes))
            shape = (q.shape[0], *heads, *sizes)
            values = held[0].tensor if held else _written_out(bias, shape, q.device)
            if values is None or not has_values(values):
                return replace(base, unknown=("mask", "bias"))
            return _with_bias(base, values.detach(), shape)

        return (
            KernelCall(
                kind="xformers",
                q=q,
                k=k,
                v=given["value"],
                output=output,
                read_recipe=read_recipe,
                held=held,
                dropout=base.dropout,
                axes=_AXES[q.dim()],
            ),
        )


def _written_out(bias: Any, shape: tuple[int, ...], device: torch.device) -> Tensor | None:
    """Return a bias object as a tensor that is added to scores of this shape."""
    write = getattr(bias, "materialize", None)
    if write is None:
        return None
    values = write(shape, dtype=torch.float32, device=device)
    return values if isinstance(values, Tensor) else None


def _with_bias(recipe: Recipe, values: Tensor, shape: tuple[int, ...]) -> Recipe:
    """Read a tensor that broadcasts to (batch, [groups, [heads,]] queries, keys)."""
    values = values[(None,) * (len(shape) - values.dim())]
    if values.shape[1:-2].numel() > 1:
        values = values.expand(values.shape[0], *shape[1:-2], *values.shape[-2:])
    values = values.reshape(values.shape[0], -1, *values.shape[-2:])
    reading = read_additive(values, *shape[-2:])
    return replace(
        recipe,
        mask=reading.mask,
        bias=reading.bias,
        empty_row=reading.empty_row,
        unknown=reading.unknown,
    )
