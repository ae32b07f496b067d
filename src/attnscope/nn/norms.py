"""Where the norms of a residual branch stand: before it, after the sum, or on both sides of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from torch import Tensor, nn

from attnscope.errors import InputError

__all__ = ["MakeNorm", "Placement", "ResidualLayer"]

Placement: TypeAlias = Literal["pre", "post", "sandwich"]
MakeNorm: TypeAlias = Callable[[int], nn.Module]
"""Makes a norm of a width: `nn.LayerNorm`, `nn.RMSNorm`, or a partial of one with its eps."""


class ResidualLayer(nn.Module):
    """A layer of residual branches, each with its norms.

    ===========  =================================
    pre          ``x + branch(norm(x))``
    post         ``norm(x + branch(x))``
    sandwich     ``x + after(branch(norm(x)))``
    ===========  =================================

    Branch 1 has ``norm1`` (torch's own name, before or after as the placement says), under sandwich
    also ``norm1_after``. Dropout is the last step of a branch, in front of the second norm.

    Source: post, Vaswani et al. 2017, section 3.1; pre, Xiong et al. 2020, "On layer normalization
    in the transformer architecture", figure 1; sandwich, Ding et al. 2021 (CogView), section 2.4,
    and Gemma 2. Elsewhere: `norm_first` (torch): True is pre.

    Example:
        >>> import torch
        >>> layer = ResidualLayer()
        >>> layer.add_norms(1, width=8, norm=nn.LayerNorm, placement="sandwich")
        >>> sorted(dict(layer.named_children()))
        ['norm1', 'norm1_after']
        >>> layer.residual(1, torch.ones(3, 8), torch.zeros_like).sum()
        tensor(24., grad_fn=<SumBackward0>)
    """

    placement: Placement
    norm1: nn.Module
    norm2: nn.Module
    norm3: nn.Module
    norm1_after: nn.Module
    norm2_after: nn.Module
    norm3_after: nn.Module

    def add_norms(self, branches: int, *, width: int, norm: MakeNorm, placement: Placement) -> None:
        """Make the norms of branches 1 to `branches`.

        Raises:
            InputError: the placement has no meaning.
        """
        if placement not in get_args(Placement):
            raise InputError(
                doing="placing the norms of a layer",
                found=f"placement={placement!r}",
                todo='use "pre", "post" or "sandwich"',
            )
        self.placement = placement
        for number in range(1, branches + 1):
            self.add_module(f"norm{number}", norm(width))
        if placement == "sandwich":
            for number in range(1, branches + 1):
                self.add_module(f"norm{number}_after", norm(width))

    def residual(self, number: int, x: Tensor, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x and what branch `number` adds to it, normed where the placement says."""
        norm = self.get_submodule(f"norm{number}")
        if self.placement == "post":
            normed: Tensor = norm(x + branch(x))
            return normed
        added = branch(norm(x))
        if self.placement == "sandwich":
            added = self.get_submodule(f"norm{number}_after")(added)
        return x + added
