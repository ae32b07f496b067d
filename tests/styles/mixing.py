"""Weights that are changed, mixed, shared or subtracted before they meet the values."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, core, seeded, split, usual
from .truth import ROOT, Style, Truth, attend, raw_scores


class TalkingEinsum(Core):
    """Heads are mixed before and after the softmax, by einsum."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.pre = nn.Parameter(torch.randn(3, 3))
        self.post = nn.Parameter(torch.randn(3, 3))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with mixed heads."""
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
        dots = torch.einsum("bhij,hk->bkij", dots, self.pre).contiguous()
        attn = torch.einsum("bhij,hk->bkij", dots.softmax(dim=-1), self.post).contiguous()
        return torch.einsum("bhij,bhjd->bhid", attn, v)


class TalkingLinear(Core):
    """The same by linear layers over the heads, moved last and back."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.proj_l = nn.Linear(3, 3)
        self.proj_w = nn.Linear(3, 3)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with mixed heads."""
        attn = (q * 8**-0.5) @ k.transpose(-2, -1)
        attn = self.proj_l(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = attn.softmax(dim=-1)
        attn = self.proj_w(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return attn @ v


class ReAttention(Core):
    """Mixed after the softmax by a 1x1 convolution and normalised per head."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.reatten_matrix = nn.Conv2d(3, 3, 1, 1)
        self.var_norm = nn.BatchNorm2d(3)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with mixed weights."""
        attn = F.softmax(q @ k.transpose(-2, -1) * 8**-0.5, dim=-1)
        return self.var_norm(self.reatten_matrix(attn)) @ v


def talking_einsum_truth(m: Any, inputs: Any) -> Truth:
    """Mixtures written as sums over heads."""

    def mix(t: Tensor, matrix: Tensor) -> Tensor:
        return (t[:, :, None] * matrix[None, :, :, None, None]).sum(1)

    return usual(
        normalise=lambda scores: mix(scores, m.pre).softmax(-1),
        change=lambda weights: mix(weights, m.post),
    )(m, inputs)


def over_heads(layer: nn.Module, t: Tensor) -> Tensor:
    """A linear layer over the heads."""
    return layer(t.movedim(1, -1)).movedim(-1, 1)


def talking_linear_truth(m: Any, inputs: Any) -> Truth:
    """Mixtures by the layers."""
    return usual(
        normalise=lambda scores: over_heads(m.proj_l, scores).softmax(-1),
        change=lambda weights: over_heads(m.proj_w, weights),
    )(m, inputs)


class Differential(Projections):
    """Two maps a head, the second subtracted; queries and keys in two halves."""

    def __init__(self) -> None:
        super().__init__(heads=6, kv_heads=6, head_dim=4)
        self.lambda_full = nn.Parameter(torch.tensor(0.35))
        self.v = nn.Linear(20, 24)
        self.out = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend by the difference of neighbouring maps."""
        q, k = split(self.q(x), 6), split(self.k(x), 6)
        v = split(self.v(x), 3)
        q *= 4**-0.5
        attn_weights = torch.matmul(q, k.transpose(-1, -2)).softmax(-1).view(-1, 3, 2, 5, 5)
        attn_weights = attn_weights[:, :, 0] - self.lambda_full * attn_weights[:, :, 1]
        return self.out(torch.matmul(attn_weights, v).transpose(1, 2).reshape(-1, 5, 24))


class DifferentialApart(Differential):
    """The same with both maps written out."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend by the difference of two maps."""
        q1, q2 = split(self.q(x), 6).view(-1, 3, 2, 5, 4).unbind(2)
        k1, k2 = split(self.k(x), 6).view(-1, 3, 2, 5, 4).unbind(2)
        a1 = torch.softmax(q1 @ k1.mT / 4**0.5, dim=-1)
        a2 = torch.softmax(q2 @ k2.mT / 4**0.5, dim=-1)
        y = (a1 - self.lambda_full * a2) @ split(self.v(x), 3)
        return self.out(y.transpose(1, 2).flatten(2))


def interleaved_truth(m: Any, inputs: Any) -> Truth:
    """Six maps; heads of values meet the difference of two neighbours."""
    (x,) = inputs
    q, k, v = split(m.q(x), 6), split(m.k(x), 6), split(m.v(x), 3)
    weights = (raw_scores(q, k) * 0.5).softmax(-1)
    applied = weights[:, ::2] - m.lambda_full * weights[:, 1::2]
    return Truth(q=q, k=k, v=v, weights=weights, applied=applied, context=applied @ v, scale=0.5)


def differential_truth(m: Any, inputs: Any) -> Truth:
    """Of the first map; what is subtracted comes after its softmax."""
    (x,) = inputs
    q, k = (split(f(x), 6).unflatten(1, (3, 2)) for f in (m.q, m.k))
    second = (raw_scores(q[:, :, 1], k[:, :, 1]) * 0.5).softmax(-1)
    return attend(
        q[:, :, 0], k[:, :, 0], split(m.v(x), 3), 0.5,
        change=lambda weights: weights - m.lambda_full * second,
    )  # fmt: skip


class TwoValues(Projections):
    """The same weights meet two kinds of values."""

    def __init__(self) -> None:
        super().__init__()
        self.v2 = nn.Linear(20, 18)
        self.out = nn.Linear(42, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend once, read twice."""
        q, k, v = (split(f(x), self.heads) for f in (self.q, self.k, self.v))
        weights = (q @ k.mT / 8**0.5).softmax(-1)
        both = ((weights @ t).transpose(1, 2).flatten(2) for t in (v, split(self.v2(x), 3)))
        return self.out(torch.cat(tuple(both), dim=-1))


def second_values(m: Any, inputs: Any) -> Truth:
    """The second reading, six wide."""
    (x,) = inputs
    return attend(split(m.q(x), 3), split(m.k(x), 3), split(m.v2(x), 3))


class ResidualScores(nn.Module):
    """Two layers; the second adds the scores of the first to its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Projections()
        self.second = Projections()

    @staticmethod
    def layer(m: Projections, x: Tensor, prev: Tensor | None) -> tuple[Tensor, Tensor]:
        """One layer; gives its scores on."""
        q, k, v = (split(f(x), 3) for f in (m.q, m.k, m.v))
        scores = torch.matmul(q, k.transpose(2, 3)) * 8**-0.5
        if prev is not None:
            scores = scores + prev
        output = torch.matmul(F.softmax(scores, dim=-1), v)
        return m.out(output.transpose(1, 2).flatten(2)), scores

    def forward(self, x: Tensor) -> Tensor:
        """Run both layers."""
        y, scores = self.layer(self.first, x, None)
        return self.layer(self.second, x + y, scores)[0]


def residual_truth(m: Any, inputs: Any) -> Truth:
    """The second layer, biased by the first."""
    (x,) = inputs
    before = usual()(m.first, (x,))
    assert before.q is not None
    assert before.k is not None
    x = x + m.first.out(before.merged)
    return usual(bias=raw_scores(before.q, before.k) * ROOT)(m.second, (x,))


def residual_output(m: Any, truth: Truth) -> Tensor:
    """Output of the second layer."""
    return m.second.out(truth.merged)


def top_three(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Only the three best keys of each query stay."""
    dots = q @ k.mT / 8**0.5
    kth = dots.topk(3, dim=-1).values[..., -1:].expand_as(dots)
    dots.masked_fill_(dots < kth, -torch.finfo(dots.dtype).max)
    return dots.softmax(-1) @ v


def best_three(m: Any, inputs: Any) -> Tensor:
    """Ranks below three."""
    (x,) = inputs
    scores = raw_scores(split(m.q(x), 3), split(m.k(x), 3))
    return scores.argsort(-1, descending=True).argsort(-1) < 3


class GatedKeys(Core):
    """Weights times a gate a key, then divided by their sum."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.gate = nn.Linear(8, 1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with gated weights."""
        weights = (q @ k.mT / 8**0.5).softmax(-1)
        weights = weights * torch.sigmoid(self.gate(v)).transpose(-1, -2)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-6)
        return weights @ v


def gated_truth(m: Any, inputs: Any) -> Truth:
    """The gate comes from the values."""
    gate = torch.sigmoid(m.gate(split(m.v(inputs[0]), 3))).mT

    def change(weights: Tensor) -> Tensor:
        gated = weights * gate
        return gated / (gated.sum(-1, keepdim=True) + 1e-6)

    return usual(change=change)(m, inputs)


DIFFERENCE: dict[str, Any] = {
    "head_dim": 4,
    "scale": 0.5,
    "after": ("subtract",),
    "truth": differential_truth,
    "note": "facts and truth are those of the first of two maps",
}

STYLES: tuple[Style, ...] = (
    Style(
        name="talking-heads-einsum", build=seeded(TalkingEinsum), before=("mix",),
        after=("mix",), unknown=("head-mixing",), truth=talking_einsum_truth,
    ),
    Style(
        name="talking-heads-linear", build=seeded(TalkingLinear), before=("mix",),
        after=("mix",), unknown=("head-mixing",), truth=talking_linear_truth,
    ),
    Style(
        name="talking-heads-convolution", build=seeded(ReAttention), after=("mix", "normalise"),
        truth=lambda m, i: usual(change=lambda w: m.var_norm(m.reatten_matrix(w)))(m, i),
    ),
    Style(
        name="differential-interleaved", build=seeded(Differential), heads=6, kv_heads=6,
        value_heads=3, head_dim=4, scale=0.5, after=("multiply", "subtract"),
        truth=interleaved_truth, note="six maps, three heads of values",
    ),
    Style(name="differential-apart", build=seeded(DifferentialApart), **DIFFERENCE),
    Style(
        name="two-values", build=seeded(TwoValues), calls=2, value_dim=6, truth=second_values,
        output=None, note="one set of weights, two contexts: counted as two calls",
    ),
    Style(
        name="residual-scores", build=seeded(ResidualScores), calls=2, bias=True,
        truth=residual_truth, output=residual_output,
    ),
    Style(
        name="top-three-keys", build=core(top_three), mask=frozenset({"custom"}), visible=0.6,
        truth=usual(visible=best_three),
    ),
    Style(
        name="gated-keys-renormalised", build=seeded(GatedKeys), after=("multiply", "divide"),
        truth=gated_truth,
    ),
)  # fmt: skip
