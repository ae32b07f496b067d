"""The parts that many styles share: four linear layers, the split into heads, inputs, seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .truth import ROOT, Truth, attend

Maker = Callable[[Any, Any], Tensor]


def noise(*shape: int, seed: int = 1) -> Tensor:
    """Gaussian numbers that are the same at every call and leave the global generator alone."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def split(features: Tensor, heads: int) -> Tensor:
    """Split ``(batch, tokens, heads * width)`` into ``(batch, heads, tokens, width)``."""
    return features.view(*features.shape[:2], heads, -1).transpose(1, 2)


def merge(context: Tensor) -> Tensor:
    """Undo `split`."""
    return context.transpose(1, 2).flatten(2)


class Projections(nn.Module):
    """Linear layers q, k, v and out, and the number of heads."""

    def __init__(
        self,
        heads: int = 3,
        head_dim: int = 8,
        *,
        kv_heads: int | None = None,
        value_dim: int | None = None,
        width: int = 20,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.head_dim = head_dim
        self.value_dim = value_dim or head_dim
        self.q = nn.Linear(width, heads * head_dim)
        self.k = nn.Linear(width, self.kv_heads * head_dim)
        self.v = nn.Linear(width, self.kv_heads * self.value_dim)
        self.out = nn.Linear(heads * self.value_dim, width)


class Core(Projections):
    """Projections around a function of q, k and v, each ``(batch, heads, tokens, width)``."""

    def __init__(self, function: Callable[..., Tensor], **sizes: int) -> None:
        super().__init__(**sizes)
        self.function = function

    def forward(self, x: Tensor, *rest: Any) -> Tensor:
        """Attend from x to x; what else comes in goes on to the function."""
        q = split(self.q(x), self.heads)
        k = split(self.k(x), self.kv_heads)
        v = split(self.v(x), self.kv_heads)
        return self.out(merge(self.function(q, k, v, *rest)))


def seeded(make: Callable[..., nn.Module], *args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    """Return a function that builds the module, in eval mode, with the same numbers each time."""

    def build() -> nn.Module:
        torch.manual_seed(0)
        return make(*args, **kwargs).eval()

    return build


def core(function: Callable[..., Tensor], **sizes: int) -> Callable[[], nn.Module]:
    """Shorthand for a seeded `Core`."""
    return seeded(Core, function, **sizes)


def usual(
    scale: float | Callable[[Any], Tensor] = ROOT,
    *,
    visible: Tensor | Maker | None = None,
    bias: Tensor | Maker | None = None,
    **how: Any,
) -> Callable[[Any, Any], Truth]:
    """Truth of a `Projections` whose first input is the only source of q, k and v."""

    def truth(module: Any, inputs: Any) -> Truth:
        x = next(iter(inputs.values())) if isinstance(inputs, dict) else inputs[0]
        return attend(
            split(module.q(x), module.heads),
            split(module.k(x), module.kv_heads),
            split(module.v(x), module.kv_heads),
            scale(module) if callable(scale) else scale,
            visible=visible(module, inputs) if callable(visible) else visible,
            bias=bias(module, inputs) if callable(bias) else bias,
            **how,
        )

    return truth


def lower(queries: int = 5, keys: int | None = None) -> Tensor:
    """Causal visibility aligned to the last key: True where the key is not later."""
    keys = keys or queries
    return torch.arange(keys)[None, :] <= torch.arange(queries)[:, None] + (keys - queries)
