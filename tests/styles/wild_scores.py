"""What unusual people do between the products: normalisers, temperatures, noise, gates."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .normalisers import around, normalised
from .projections import Core, Projections, core, merge, noise, seeded, split, usual
from .truth import ROOT, Style, Truth, attend


def special(scores: Tensor) -> Tensor:
    """torch.special.softmax with a type."""
    return torch.special.softmax(scores, -1, dtype=torch.float64).float()


def stack_level(scores: Tensor) -> Tensor:
    """All arguments of F.softmax by position."""
    return F.softmax(scores, -1, 5, torch.float32)


def softmin(scores: Tensor) -> Tensor:
    """Softmin of what is negated."""
    return F.softmin(-scores, dim=-1)


def log_of_sum(scores: Tensor) -> Tensor:
    """In log space by hand: the maximum out, the logarithm of the sum off."""
    m = scores.amax(dim=-1, keepdim=True)
    z = scores - m
    return torch.exp(z - torch.log(torch.exp(z).sum(dim=-1, keepdim=True)))


def base_two(scores: Tensor) -> Tensor:
    """Powers of two, as kernels write it."""
    t = scores * 1.44269504
    p = torch.exp2(t - t.max(-1, keepdim=True)[0])
    return p / p.sum(-1)[..., None]


def with_epsilon(scores: Tensor) -> Tensor:
    """A small number keeps the division safe; here it is lost in rounding."""
    e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values.detach())
    return e / (e.sum(dim=-1, keepdim=True) + 1e-9)


def of_the_transposed(scores: Tensor) -> Tensor:
    """The softmax runs over the first of swapped axes."""
    return scores.transpose(-1, 0).softmax(0).transpose(0, -1)


def flat_rows(scores: Tensor) -> Tensor:
    """All rows of all heads as one matrix."""
    return F.softmax(scores.reshape(-1, scores.shape[-1]), dim=1).view_as(scores)


def shares_of_sigmoids(scores: Tensor) -> Tensor:
    """Sigmoids over their sum."""
    s = torch.sigmoid(scores)
    return s / s.sum(dim=-1, keepdim=True)


def shares_of_squares(scores: Tensor) -> Tensor:
    """Squares over their sum."""
    return scores.square() / (scores**2).sum(-1, keepdim=True)


def softplus_shares(scores: Tensor) -> Tensor:
    """Softplus over its sum."""
    return F.normalize(F.softplus(scores), p=1.0, dim=-1)


def twice(scores: Tensor) -> Tensor:
    """A softmax of a softmax: one in the function, one in the caller."""
    return torch.softmax(torch.softmax(scores, dim=-1), dim=-1)


def clamped(scores: Tensor) -> Tensor:
    """Scores clamped to ±0.4, as graph code does to keep exponentials small."""
    return torch.softmax(scores.clamp(-0.4, 0.4), dim=-1)


def leaky(scores: Tensor) -> Tensor:
    """A leaky ReLU before the softmax."""
    return F.leaky_relu(scores, 0.2).softmax(-1)


class Schedule(Core):
    """A temperature that falls with a counter of steps."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.step = 40

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend at the present temperature."""
        self.step += 1
        tau = max(0.5, math.exp(-0.01 * self.step))
        return ((q @ k.mT) / (math.sqrt(q.size(-1)) * tau)).softmax(-1) @ v


TAU = math.exp(-0.41)


class TokenTemperature(Projections):
    """Each query chooses its own temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.temp = nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        tau = F.softplus(self.temp(x)).transpose(1, 2).unsqueeze(-1) + 0.1
        weights = F.softmax(q @ k.mT / tau, dim=-1)
        return self.out(merge(weights @ v))


def token_scale(m: Any, inputs: Any) -> Truth:
    """One factor a query and head."""
    (x,) = inputs
    q, k, v = (split(f(x), 3) for f in (m.q, m.k, m.v))
    return attend(q, k, v, 1 / (F.softplus(m.temp(x)).mT[..., None] + 0.1))


def gumbel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Gumbel noise from a generator of its own on the logits."""
    scores = q @ k.mT / 8**0.5
    uniform = torch.rand(scores.shape, generator=torch.Generator().manual_seed(4))
    return (scores - torch.log(-torch.log(uniform))).softmax(-1) @ v


def gumbel_bias(*_: Any) -> Tensor:
    """The same noise."""
    uniform = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(4))
    return -(-uniform.log()).log()


def fixed_ten(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Unit vectors, a fixed scale of ten."""
    q, k = F.normalize(q, p=2, dim=-1), k / k.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return torch.softmax(10 * torch.einsum("bhid,bhjd->bhij", q, k), dim=-1) @ v


def unit_truth(m: Any, inputs: Any) -> Truth:
    """Query and key are the unit vectors."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    return attend(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, 10.0)


def gated_context(m: Any, truth: Truth) -> Tensor:
    """The context times a gate."""
    return m.out(truth.merged * torch.sigmoid(m.gate(noise(2, 5, 20))))


class GatedOutput(Projections):
    """A gate from the input on the context."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(20, 24)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        y = merge(torch.softmax(q @ k.mT * 8**-0.5, -1) @ v)
        return self.out(y * self.gate(x).sigmoid())


class Slots(nn.Module):
    """Slots compete: softmax over the slots, then a weighted mean over the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = nn.Parameter(torch.randn(4, 16))
        self.q, self.k, self.v = nn.Linear(16, 8), nn.Linear(20, 8), nn.Linear(20, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Read x ``(batch, tokens, width)`` into four slots."""
        k, v = self.k(x), self.v(x)
        q = self.q(self.slots.expand(x.shape[0], -1, -1))
        dots = torch.einsum("bid,bjd->bij", q, k) * 8**-0.5
        attn = dots.softmax(dim=1) + 1e-8
        attn = attn / attn.sum(dim=-1, keepdim=True)
        return torch.einsum("bjd,bij->bid", v, attn)


def slots_truth(m: Any, inputs: Any) -> Truth:
    """One head, softmax over the queries."""
    (x,) = inputs
    q = m.q(m.slots).expand(2, 1, 4, 8)

    def change(weights: Tensor) -> Tensor:
        return (weights + 1e-8) / (weights + 1e-8).sum(-1, keepdim=True)

    return attend(
        q, m.k(x)[:, None], m.v(x)[:, None], normalise=lambda s: s.softmax(-2), change=change
    )


BENT: dict[str, Any] = {"unknown": ("softcap",), "scale": None}

STYLES: tuple[Style, ...] = (
    normalised("softmax-special", special),
    normalised("softmax-all-arguments", stack_level),
    normalised("softmin-of-negative", softmin),
    normalised("softmax-log-of-sum", log_of_sum),
    normalised("softmax-base-two", base_two),
    normalised("softmax-with-epsilon", with_epsilon),
    normalised("softmax-of-transposed", of_the_transposed),
    normalised("softmax-of-flat-rows", flat_rows),
    Style(
        name="shares-of-sigmoids", build=core(around(shares_of_sigmoids)), normaliser="sigmoid",
        after=("divide",),
        truth=usual(normalise=torch.sigmoid, change=lambda w: w / w.sum(-1, keepdim=True)),
        note="sigmoids are the normaliser, the division comes after it",
    ),
    normalised(
        "shares-of-squares", shares_of_squares, "relu-normalised", before=("square",),
        unknown=("softcap",), scale=None,
        note="squares are the scores, which are divided by their sum",
    ),
    normalised("shares-of-softplus", softplus_shares, "unknown", unknown=("normaliser",)),
    Style(
        name="softmax-twice", before=("softmax",), build=core(around(twice)),
        unknown=("scores",), scale=None,
        truth=usual(normalise=twice), note="the inner softmax is part of the scores",
    ),
    Style(
        name="scores-clamped", before=("clamp",), build=core(around(clamped)), **BENT,
        truth=usual(normalise=clamped),
    ),
    Style(
        name="scores-leaky-relu", before=("leaky_relu",), build=core(around(leaky)), **BENT,
        truth=usual(normalise=leaky),
    ),
    Style(
        name="temperature-schedule", build=seeded(Schedule), scale=ROOT / TAU,
        truth=usual(ROOT / TAU),
    ),
    Style(
        name="temperature-per-token", build=seeded(TokenTemperature), scale=None,
        scale_tensor=True, truth=token_scale,
    ),
    Style(
        name="gumbel-noise", build=core(gumbel), bias=True, truth=usual(bias=gumbel_bias),
        note="noise on the logits is a bias",
    ),
    Style(name="unit-vectors-fixed-ten", build=core(fixed_ten), scale=10.0, truth=unit_truth),
    Style(
        name="gated-output", build=seeded(GatedOutput), truth=usual(), output=gated_context,
    ),
    Style(
        name="slots-compete", build=seeded(Slots), heads=1, kv_heads=1, queries=4,
        normaliser_axis="queries", after=("add", "divide"), truth=slots_truth,
        output=lambda _, t: t.merged,
    ),
)  # fmt: skip
