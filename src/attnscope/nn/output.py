"""How the context of all heads becomes the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnscope.axes import Context
from attnscope.nn.projections import Widths

__all__ = ["HeadwiseOutput", "OutputProjection"]


class OutputProjection(Protocol):
    """What `output=` takes: it makes the module that follows the heads."""

    def build(self, widths: Widths) -> nn.Module:
        """Return a module of the context (batch, heads, queries, head_dim).

        It returns (batch, queries, embed), and its parameters have their first values.
        """
        ...


@dataclass(frozen=True, slots=True)
class HeadwiseOutput:
    """Each head has an output projection of its own, and their results are added up.

    output = Σ_h context_h · W_h + b, with W (heads, head_dim, embed): the same as one projection of
    all heads side by side, written so that each head's part can be looked at, frozen or cut.
    Source: Elhage et al. 2021 (A mathematical framework for transformer circuits). Others: `W_O`
    of TransformerLens.

    Example:
        >>> output = HeadwiseOutput().build(Widths(8, 8, 8, 2, 2, 4))
        >>> tuple(output.weight.shape), tuple(output(torch.ones(1, 2, 5, 4)).shape)
        ((2, 4, 8), (1, 5, 8))
    """

    def build(self, widths: Widths) -> nn.Module:
        """Return the module."""
        return _Headwise(widths)


class _Headwise(nn.Module):
    def __init__(self, widths: Widths) -> None:
        super().__init__()
        shape, where = (widths.heads, widths.head_dim, widths.embed), (widths.device, widths.dtype)
        self.weight = nn.Parameter(torch.empty(shape, device=where[0], dtype=where[1]))
        bias = torch.zeros(widths.embed, device=where[0], dtype=where[1])
        self.bias = nn.Parameter(bias) if widths.bias else None
        bound = widths.q**-0.5  # nn.Linear's of the same fan-in
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, context: Context) -> Float[Tensor, "batch queries embed"]:
        output = torch.einsum("bhqd,hde->bqe", context, self.weight)
        return output if self.bias is None else output + self.bias.to(output.dtype)
