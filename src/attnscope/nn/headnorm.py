"""Norms that know about heads: for q and k (QK-norm), and for the context before the output.

A norm is given as what makes one of a width, such as `torch.nn.RMSNorm` or `torch.nn.LayerNorm`,
in one of two arrangements: of each head by itself, or of all heads side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from attnscope.errors import InputError
from attnscope.nn.kinds import described

__all__ = ["AcrossHeads", "HeadNorm", "NormOfWidth", "PerHead", "build_norm"]

NormOfWidth: TypeAlias = Callable[[int], nn.Module]
"""Makes a norm of a width, over the last axis."""

Split: TypeAlias = Float[Tensor, "batch heads tokens head_dim"]


@dataclass(frozen=True, slots=True)
class PerHead:
    """Each head is normed by itself, with one gain of width head_dim that all heads share.

    As QK-norm: Henry et al. 2020; Dehghani et al. 2023 (ViT-22B), section 2.1; `q_norm` of Qwen 3.
    Before the output projection: Sun et al. 2023 (RetNet), section 2.2.
    """

    norm: NormOfWidth

    def build(self, heads: int, head_dim: int) -> nn.Module:
        """Return the module for (batch, heads, tokens, head_dim)."""
        del heads
        return _made(self.norm, head_dim)


@dataclass(frozen=True, slots=True)
class AcrossHeads:
    """All heads are normed together, side by side, with a gain of width heads · head_dim.

    As QK-norm: `q_norm` of OLMo 2. Before the output projection: Wang et al. 2022 (Magneto's
    sub-LayerNorm), section 2.1.
    """

    norm: NormOfWidth

    def build(self, heads: int, head_dim: int) -> nn.Module:
        """Return the module for (batch, heads, tokens, head_dim)."""
        return _Across(_made(self.norm, heads * head_dim))


HeadNorm: TypeAlias = NormOfWidth | PerHead | AcrossHeads
"""A bare norm means `PerHead` of it."""


class _Across(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Split) -> Split:
        turned = x.transpose(1, 2)
        normed: Tensor = self.norm(turned.flatten(2))
        return normed.reshape(turned.shape).transpose(1, 2)


def build_norm(norm: HeadNorm | None, heads: int, head_dim: int) -> nn.Module | None:
    """Return the module that `norm` means for these sizes; None: there is none."""
    if norm is None:
        return None
    arranged = norm if isinstance(norm, (PerHead, AcrossHeads)) else PerHead(norm)
    return arranged.build(heads, head_dim)


def _made(norm: NormOfWidth, width: int) -> nn.Module:
    """Return the norm of a width.

    Raises:
        InputError: it makes none.
    """
    made = None if isinstance(norm, nn.Module) or not callable(norm) else norm(width)
    if isinstance(made, nn.Module):
        return made
    raise InputError(
        f"making a norm of width {width}",
        described(norm),
        "give what makes one, such as torch.nn.RMSNorm",
    )
