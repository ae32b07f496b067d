"""The attention of a widely read article, with the fault that many copies of it carry.

The inputs come sequence first, ``(length, batch, width)``. After the split into heads the
projections are transposed as if the batch came first: the code says ``.transpose(1, 2)`` and
gets ``(length, heads, batch, head_dim)``. The product over the last two axes then compares the
samples of the batch with one another, at each position on its own: the weights are
``(length, heads, batch, batch)``, no token ever sees another token, and every sample's output
depends on what else happens to be in the batch. Nothing raises, and the output has the right
shape, because merging the heads undoes the same transposition.

This file exists so that attnscope can show it::

    attnscope trace examples/article_attention.py
    attnscope check examples/article_attention.py

``adaptive`` is the article's cure for scores that are too large: they are divided by the root of
their own standard deviation, on top of the usual scale. (The split into heads is mended here, so
that one fault is left.) The standard deviation runs over all samples, heads and tokens, later ones
included, so that each of them changes the temperature of all others::

    attnscope check examples/article_attention.py:adaptive
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LENGTH, BATCH, WIDTH, HEADS = 10, 3, 32, 4  # all different, so that no axis passes for another

expect = {"batch_axis": 1, "sequence_axis": 0}


class DebuggableAttention(nn.Module):
    """Multi-head self-attention over the wrong axis; see the text at the head of this file.

    Args:
        width: features of a token; a multiple of ``heads``.
        heads: number of heads.
        dropout: share of the weights that training sets to zero.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = width // heads
        self.to_query = nn.Linear(width, width, bias=False)
        self.to_key = nn.Linear(width, width, bias=False)
        self.to_value = nn.Linear(width, width, bias=False)
        self.to_output = nn.Linear(width, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the output ``(length, batch, width)`` and the weights.

        Args:
            x: tokens, ``(length, batch, width)``.
            mask: 0 where the scores are to be hidden; broadcast against the scores.
        """
        length, batch, width = x.shape
        query = self._split(self.to_query(x))
        key = self._split(self.to_key(x))
        value = self._split(self.to_value(x))

        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.dropout(torch.softmax(scores, dim=-1))

        context = torch.matmul(weights, value).transpose(1, 2)
        return self.to_output(context.reshape(length, batch, width)), weights

    def _split(self, x: Tensor) -> Tensor:
        length, batch, _ = x.shape
        return x.view(length, batch, self.heads, self.head_dim).transpose(1, 2)


class AdaptiveAttention(DebuggableAttention):
    """Attention over the tokens, with a scale that follows the scores of all samples together."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the output ``(length, batch, width)`` and the weights."""
        length, batch, width = x.shape
        query = self._split(self.to_query(x))
        key = self._split(self.to_key(x))
        value = self._split(self.to_value(x))

        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.head_dim)
        scores = scores / math.sqrt(scores.std().item())
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.dropout(torch.softmax(scores, dim=-1))

        context = torch.matmul(weights, value).permute(2, 0, 1, 3)
        return self.to_output(context.reshape(length, batch, width)), weights

    def _split(self, x: Tensor) -> Tensor:
        length, batch, _ = x.shape
        return x.view(length, batch, self.heads, self.head_dim).permute(1, 2, 0, 3)


def model() -> DebuggableAttention:
    """Return the module in eval mode, with the same parameters every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return DebuggableAttention(WIDTH, HEADS).eval()


def adaptive() -> AdaptiveAttention:
    """Return the variant, with the same parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AdaptiveAttention(WIDTH, HEADS).eval()


def inputs() -> Tensor:
    """Return random tokens, ``(length, batch, width)``."""
    return torch.randn(LENGTH, BATCH, WIDTH, generator=torch.Generator().manual_seed(1))
