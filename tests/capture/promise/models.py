"""Small models in which something happens that a recording could disturb."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS, TOKENS, BATCH = 16, 4, 5, 2


def by_hand(q: Tensor, k: Tensor, v: Tensor, drop: float, *, training: bool) -> Tensor:
    """Causal attention in separate steps, one of them in place."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    scores = scores.masked_fill(later, float("-inf"))
    weights = F.dropout(scores.softmax(-1), drop, training)
    return weights @ v


def fused(q: Tensor, k: Tensor, v: Tensor, drop: float, *, training: bool) -> Tensor:
    """The same as one function."""
    return F.scaled_dot_product_attention(
        q, k, v, dropout_p=drop if training else 0.0, is_causal=True
    )


ATTENTIONS: dict[str, Callable[..., Tensor]] = {"by hand": by_hand, "fused": fused}


class Block(nn.Module):
    """Attention with two kv heads for four heads, a norm with running statistics, an MLP."""

    def __init__(self, attend: Callable[..., Tensor] = by_hand, drop: float = 0.0) -> None:
        super().__init__()
        self.attend, self.drop = attend, drop
        self.norm = nn.LayerNorm(WIDTH)
        self.q = nn.Linear(WIDTH, WIDTH)
        self.kv = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.statistics = nn.BatchNorm1d(WIDTH)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x (batch, tokens, width)."""
        y = self.norm(x)
        q = self.q(y).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2, HEADS // 2, -1)).permute(2, 0, 3, 1, 4)
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        context = self.attend(q, k, v, self.drop, training=self.training)
        x = x + self.out(context.transpose(1, 2).flatten(2))
        return x + self.statistics(x.flatten(0, 1)).view_as(x)  # type: ignore[no-any-return]


class Stack(nn.Module):
    """Two blocks, checkpointed on request."""

    def __init__(
        self,
        attend: Callable[..., Tensor] = by_hand,
        drop: float = 0.0,
        *,
        reentrant: bool | None = None,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(attend, drop) for _ in range(2))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        """Run the blocks on x (batch, tokens, width)."""
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


def sample(batch: int = BATCH, tokens: int = TOKENS, dtype: torch.dtype | None = None) -> Tensor:
    """Return an input (batch, tokens, width)."""
    return torch.randn(batch, tokens, WIDTH, dtype=dtype)


def step(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Run forward and backward once; return the output and the gradient of the input."""
    x = sample().requires_grad_()
    out = model(x)
    out.square().sum().backward()
    assert x.grad is not None
    return out, x.grad
