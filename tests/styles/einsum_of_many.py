"""Einsums of three operands and more: what would be a step of its own is one of the operands."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .projections import Projections, noise, seeded, split, usual
from .truth import Style, Truth, attend


class OutputFirst(Projections):
    """The output parameter stands before the values, the weights come last."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 8, 20) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        p = (q @ k.mT * 8**-0.5).softmax(-1)
        return torch.einsum("hdc,bhsd,bhts->btc", self.w, v, p)


def projected(module: Any, truth: Truth) -> Tensor:
    """Output of a module whose output parameter is (heads, value_dim, width)."""
    return torch.einsum("bhtd,hdc->btc", truth.read, module.w)


class ScaledByHead(Projections):
    """A learned factor for each head is the third operand of q·k."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.rand(3) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (f(x).unflatten(-1, (3, 8)) for f in (self.q, self.k, self.v))
        logits = torch.einsum("b t h d, b s h d, h -> b h t s", q, k, self.factor)
        return self.out(torch.einsum("bhts,bshd->bthd", logits.softmax(-1), v).flatten(2))


class Bilinear(Projections):
    """Scores by a matrix between query and key, all in one einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.between = nn.Parameter(torch.randn(3, 8, 8) * 0.4)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bhic,hcd,bhjd->bhij", q, self.between, k)
        context = torch.einsum("bhij,bhjd->bihd", torch.softmax(scores, -1), v)
        return self.out(context.flatten(2))


def bilinear_truth(module: Any, inputs: Any) -> Truth:
    """Queries are what meets the keys: with the matrix in them."""
    q, k, v = (split(f(inputs[0]), 3) for f in (module.q, module.k, module.v))
    return attend(q @ module.between, k, v, 1.0)


class GainByHead(Projections):
    """A learned gain for each head's context is the third operand."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(3) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        attn = torch.softmax(q @ k.mT * 8**-0.5, dim=-1)
        context = torch.einsum("bhij,bhjd,h->bihd", attn, v, self.gain)
        return self.out(context.flatten(2))


def gained(module: Any, truth: Truth) -> Tensor:
    """Contexts times their gains, merged."""
    return module.out((truth.read * module.gain[:, None, None]).transpose(1, 2).flatten(2))


class KeptInside(Projections):
    """Weights, a 0/1 row over the keys, values and the output parameter: four operands."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 8, 20) * 0.2)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        p = (q @ k.mT * 8**-0.5).softmax(-1)
        return torch.einsum("bhts,bs,bhsd,hdc->btc", p, keep, v, self.w)


def kept_inputs() -> Any:
    """The last two keys of the second sample are left out, after the softmax."""
    keep = torch.ones(2, 5)
    keep[1, 3:] = 0
    return noise(2, 5, 20), keep


def kept_truth(module: Any, inputs: Any) -> Truth:
    """Weights of a plain softmax, multiplied with the row afterwards."""
    x, keep = inputs
    q, k, v = (split(f(x), 3) for f in (module.q, module.k, module.v))
    return attend(q, k, v, change=lambda weights: weights * keep[:, None, None])


STYLES: tuple[Style, ...] = (
    Style(
        name="einsum-output-first",
        build=seeded(OutputFirst),
        truth=usual(),
        output=projected,
        exact=False,
    ),
    Style(
        name="einsum-scale-by-head",
        build=seeded(ScaledByHead),
        scale=None,
        scale_tensor=True,
        truth=usual(lambda m: m.factor[:, None, None]),
    ),
    Style(
        name="einsum-bilinear",
        build=seeded(Bilinear),
        scale=1.0,
        truth=bilinear_truth,
    ),
    Style(name="einsum-gain-by-head", build=seeded(GainByHead), truth=usual(), output=gained),
    Style(
        name="einsum-mask-and-output",
        build=seeded(KeptInside),
        inputs=kept_inputs,
        after=("mask",),
        truth=kept_truth,
        output=projected,
    ),
)
