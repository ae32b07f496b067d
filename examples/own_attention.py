"""A small causal attention of one's own, as a first target.

    attnscope trace examples/own_attention.py

A file is a target when it defines ``model``: a module, a module class, or a function without
required arguments that returns a module. ``inputs`` and ``expect`` are optional.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

expect = {"causal": True}


class CausalAttention(nn.Module):
    """Multi-head self-attention in which no position sees a later one.

    Args:
        width: features of a token; a multiple of ``heads``.
        heads: number of heads.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width)
        self.to_output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens ``(batch, length, width)``, in the same shape."""
        batch, length, width = x.shape
        qkv = self.to_qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, length, head_dim)

        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        visible = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~visible, -math.inf).softmax(dim=-1)

        context = (weights @ v).transpose(1, 2)  # (batch, length, heads, head_dim)
        return self.to_output(context.reshape(batch, length, width))


def model() -> CausalAttention:
    """Return the module with the same parameters every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CausalAttention(width=24, heads=3)


def inputs() -> Tensor:
    """Return random tokens, ``(batch, length, width)``."""
    return torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(1))
