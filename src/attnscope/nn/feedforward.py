"""The feed-forward part of a transformer layer: what works on each token by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.errors import InputError
from attnscope.nn.kinds import described, is_count, is_number

__all__ = ["ACTIVATIONS", "FeedForward", "FeedForwardNetwork", "geglu", "swiglu"]

Features: TypeAlias = Float[Tensor, "*tokens width"]

ACTIVATIONS: MappingProxyType[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "relu-squared": lambda x: F.relu(x).square(),
        "sigmoid": lambda x: x.sigmoid(),
        "identity": lambda x: x,
    }
)
"""Activations by name; "silu" is also called swish, "gelu-tanh" gelu_new."""


@dataclass(frozen=True, slots=True)
class FeedForward:
    """How the feed-forward part of a layer is built.

    ``linear2(dropout(activation(linear1(x))))``, or gated:
    ``linear2(dropout(activation(gate(x)) * linear1(x)))``.

    ratio: hidden features per feature of the input; hidden: their number itself, instead of a
    ratio; activation: a name of `ACTIVATIONS`; gated: a third matrix decides what passes.

    A gated part has three matrices where a plain one has two: with two thirds of the ratio (8/3 for
    4) both have as many parameters.

    Raises:
        InputError: the activation has no name here, or no hidden features are left.

    Source: Vaswani et al. 2017, section 3.3; Shazeer 2020, "GLU variants improve transformer", eq.
    5 and 6. Elsewhere: MLP, FFN, `dim_feedforward` (torch), `intermediate_size` (Hugging Face).

    Example:
        >>> sorted(FeedForward(ratio=4).linears(64))
        ['linear1', 'linear2']
        >>> sorted(swiglu().linears(64))
        ['gate', 'linear1', 'linear2']
    """

    ratio: float = 4.0
    hidden: int | None = None
    activation: str = "gelu"
    gated: bool = False

    def __post_init__(self) -> None:
        """Refuse an activation that has no name, and sizes that leave nothing."""
        if self.activation not in tuple(ACTIVATIONS):
            raise InputError(
                doing="building a feed-forward part",
                found=f"activation={self.activation!r}",
                todo=f"use one of {', '.join(ACTIVATIONS)}",
            )
        ratio = is_number(self.ratio) and self.ratio > 0
        if (not ratio) if self.hidden is None else (not is_count(self.hidden)):
            name, size = ("ratio", self.ratio) if self.hidden is None else ("hidden", self.hidden)
            raise InputError(
                doing="building a feed-forward part",
                found=f"{name}={size!r}",
                todo="give a number above 0; hidden features are a whole number",
            )

    def size(self, width: int) -> int:
        """Return the hidden features for inputs of `width`."""
        return self.hidden if self.hidden is not None else max(1, round(self.ratio * width))

    def linears(self, width: int, *, bias: bool = True, **factory: Any) -> dict[str, nn.Linear]:
        """Make the matrices, in torch's order and under torch's names; `factory`: device, dtype."""
        hidden = self.size(width)
        names = ("linear1", "gate") if self.gated else ("linear1",)
        made = {name: nn.Linear(width, hidden, bias, **factory) for name in names}
        return {**made, "linear2": nn.Linear(hidden, width, bias, **factory)}

    def __call__(self, x: Features, owner: Any, dropout: Callable[[Tensor], Tensor]) -> Features:
        """Apply the matrices of `owner`, a module that holds those of `linears` as its own."""
        activate = ACTIVATIONS[self.activation]
        hidden = owner.linear1(x)
        hidden = activate(owner.gate(x)) * hidden if self.gated else activate(hidden)
        result: Tensor = owner.linear2(dropout(hidden))
        return result


def swiglu(ratio: float = 8 / 3) -> FeedForward:
    """Return the gated part with SiLU (Shazeer 2020, eq. 6), as Llama has it."""
    return FeedForward(ratio=ratio, activation="silu", gated=True)


def geglu(ratio: float = 8 / 3) -> FeedForward:
    """Return the gated part with GELU (Shazeer 2020, eq. 6), as T5 v1.1 and Gemma have it."""
    return FeedForward(ratio=ratio, activation="gelu", gated=True)


class FeedForwardNetwork(nn.Module):
    """A feed-forward part as a module of its own, for layers that one writes oneself.

    Args:
        width: features of a token.
        feed_forward: how it is built.
        dropout: probability, of the hidden features.
        bias: whether the matrices have one.

    Example:
        >>> import torch
        >>> FeedForwardNetwork(64, swiglu())(torch.randn(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    linear1: nn.Linear
    gate: nn.Linear
    linear2: nn.Linear

    def __init__(
        self,
        width: int,
        feed_forward: FeedForward | None = None,
        *,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.feed_forward = FeedForward() if feed_forward is None else feed_forward
        if not isinstance(self.feed_forward, FeedForward):
            raise InputError(
                doing="building a feed-forward part",
                found=described(feed_forward),
                todo="give FeedForward(ratio=4), swiglu() or geglu()",
            )
        for name, linear in self.feed_forward.linears(width, bias=bias).items():
            self.add_module(name, linear)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Features) -> Features:
        """Return the output for tokens (…, width), in the same shape."""
        return self.feed_forward(x, self, self.dropout)
