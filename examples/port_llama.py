"""A port of Llama to a page of one's own, with a fault that many such ports have had.

    attnscope verify examples/port_llama.py:mine arch:llama
    attnscope verify examples/port_llama.py:sound arch:llama

The original rotates feature i of a head together with feature i + head_dim / 2; its checkpoints
are laid out for that. `mine` rotates features 2i and 2i + 1 together, as the paper says it and as
the first release of Llama did, with weights in another order. Shapes fit, nothing raises, the
model even generates text: each head merely looks at the wrong places. `sound` pairs the features
as the original does.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH, HIDDEN, LAYERS = 128, 32, 48, 2
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8
BASE, EPS = 10_000.0, 1e-6


def phases(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine for each position and pair, ``(length, head_dim / 2)``, for x."""
    rates = BASE ** (-torch.arange(0, HEAD_DIM, 2, device=x.device) / HEAD_DIM)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * rates
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def rotate_halves(x: Tensor) -> Tensor:
    """Rotate feature i with feature i + head_dim / 2; x is ``(batch, heads, length, head_dim)``."""
    cos, sin = phases(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rotate_neighbours(x: Tensor) -> Tensor:
    """Rotate feature 2i with feature 2i + 1."""
    cos, sin = phases(x)
    first, second = x[..., ::2], x[..., 1::2]
    turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.flatten(-2)


class Attention(nn.Module):
    """Causal attention; neighbouring query heads share a key and value head."""

    def __init__(self, *, neighbours: bool) -> None:
        super().__init__()
        self.rotate = rotate_neighbours if neighbours else rotate_halves
        self.wq = nn.Linear(WIDTH, HEADS * HEAD_DIM, bias=False)
        self.wk = nn.Linear(WIDTH, KV_HEADS * HEAD_DIM, bias=False)
        self.wv = nn.Linear(WIDTH, KV_HEADS * HEAD_DIM, bias=False)
        self.wo = nn.Linear(HEADS * HEAD_DIM, WIDTH, bias=False)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Return the output for x ``(batch, length, width)``; visible is True = may attend."""
        q, k, v = (
            project(x).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)
            for project in (self.wq, self.wk, self.wv)
        )
        q, k = self.rotate(q), self.rotate(k)
        k, v = (each.repeat_interleave(HEADS // KV_HEADS, dim=1) for each in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(HEAD_DIM)
        weights = scores.masked_fill(~visible, -math.inf).softmax(dim=-1)
        return self.wo((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention, then a gated feed-forward, each behind a norm and beside a residual."""

    def __init__(self, *, neighbours: bool) -> None:
        super().__init__()
        self.attention = Attention(neighbours=neighbours)
        self.attention_norm = nn.RMSNorm(WIDTH, EPS)
        self.ffn_norm = nn.RMSNorm(WIDTH, EPS)
        self.w1 = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Return x ``(batch, length, width)`` after the layer."""
        x = x + self.attention(self.attention_norm(x), visible)
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """The model from token ids to logits.

    Args:
        neighbours: rotate neighbouring features together, which is the fault.
    """

    def __init__(self, *, neighbours: bool = False) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer(neighbours=neighbours) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, EPS)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return logits ``(batch, length, vocabulary)``; mask: 1 for tokens, 0 for padding."""
        length = input_ids.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
        visible = causal & attention_mask.bool()[:, None, None, :]
        x = self.tok_embeddings(input_ids)
        for layer in self.layers:
            x = layer(x, visible)
        return self.output(self.norm(x))


def _seeded(*, neighbours: bool) -> Llama:
    """Return the model with the same parameters every time, and leave the random state alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Llama(neighbours=neighbours).eval()


def mine() -> Llama:
    """Return the port with its fault; `verify` copies the original's weights into it by name."""
    return _seeded(neighbours=True)


def sound() -> Llama:
    """Return the port without the fault."""
    return _seeded(neighbours=False)
