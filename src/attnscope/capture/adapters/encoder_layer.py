"""`torch._transformer_encoder_layer_fwd`: a whole `nn.TransformerEncoderLayer`, fused in inference.

Its convention is that of `torch._native_multi_head_attention`; around the attention it computes the
output projection, the residuals, both norms and the feed-forward part. The replay computes them
too, so that it can be compared with what the layer returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnscope.axes import Context
from attnscope.calls.held import Held
from attnscope.capture.adapters.arguments import Signature
from attnscope.capture.adapters.native_mha import (
    InProjection,
    join_heads,
    recipe_reader,
    row_keeper,
)
from attnscope.capture.adapters.nested import lengths_of, padded
from attnscope.capture.kernel import KernelCall

__all__ = ["EncoderLayer"]

_SIGNATURE = Signature(
    "src embed_dim num_heads qkv_weight qkv_bias proj_weight proj_bias use_gelu norm_first eps "
    "norm_weight_1 norm_bias_1 norm_weight_2 norm_bias_2 "
    "ffn_weight_1 ffn_bias_1 ffn_weight_2 ffn_bias_2",
    mask=None,
    mask_type=None,
)


class EncoderLayer:
    """Reads calls of `torch._transformer_encoder_layer_fwd`."""

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the one function."""
        return (torch._transformer_encoder_layer_fwd,)  # noqa: SLF001  what nn calls

    @torch.no_grad()
    def read(
        self,
        function: Callable[..., Any],  # noqa: ARG002  there is only one
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> tuple[KernelCall, ...]:
        """Return the one attention of the layer, its projections made anew in the same type."""
        given = _SIGNATURE.bind(args, kwargs)
        source, out = given["src"], output
        lengths = lengths_of(source, axis=0) if source.is_nested else None
        if lengths is not None:
            source, out = padded(source), padded(out)
        rest = _Rest.of(given, Held(source))
        entering = rest.norm(source.detach(), 1) if given["norm_first"] else source.detach()
        projection = InProjection(given["qkv_weight"], given["qkv_bias"], given["num_heads"])
        q, k, v = projection(entering, entering, entering)
        mask = None if given["mask"] is None else Held(given["mask"])
        keep_rows = row_keeper(lengths, q.shape[-2])
        held = tuple(rest.held.values())
        return (
            KernelCall(
                kind="mha",
                q=q,
                k=k,
                v=v,
                output=out,
                read_recipe=recipe_reader(q, k, mask, given["mask_type"], lengths),
                held=held if mask is None else (*held, mask),
                output_axes=("batch", "tokens", "dim"),
                finish=lambda context: keep_rows(rest.after(context)),
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Rest:
    """What the layer does around its attention, and the tensors that it takes."""

    held: Mapping[str, Held]
    gelu: bool
    norm_first: bool
    eps: float

    @classmethod
    def of(cls, given: Mapping[str, Any], source: Held) -> _Rest:
        names = [name for name in given if name.startswith(("proj_", "norm_", "ffn_"))]
        tensors = {name: Held(given[name]) for name in names if isinstance(given[name], Tensor)}
        return cls({"src": source, **tensors}, given["use_gelu"], given["norm_first"], given["eps"])

    def norm(self, x: Tensor, number: int) -> Tensor:
        """Apply the first or the second LayerNorm over the last axis."""
        weight, bias = self._of(f"norm_weight_{number}"), self._of(f"norm_bias_{number}")
        return functional.layer_norm(x, x.shape[-1:], weight, bias, self.eps)

    def after(self, context: Context) -> Tensor:
        """Return the output of the layer (batch, tokens, embed) that follows from a context."""
        x = self._linear(join_heads(context), "proj_weight", "proj_bias") + self._of("src")
        if self.norm_first:
            return x + self._feed_forward(self.norm(x, 2))
        x = self.norm(x, 1)
        return self.norm(x + self._feed_forward(x), 2)

    def _feed_forward(self, x: Tensor) -> Tensor:
        inner = self._linear(x, "ffn_weight_1", "ffn_bias_1")
        inner = functional.gelu(inner) if self.gelu else functional.relu(inner)
        return self._linear(inner, "ffn_weight_2", "ffn_bias_2")

    def _linear(self, x: Tensor, weight: str, bias: str) -> Tensor:
        return functional.linear(x, self._of(weight), self._of(bias))

    def _of(self, name: str) -> Tensor:
        return self.held[name].tensor
