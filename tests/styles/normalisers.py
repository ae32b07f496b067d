"""What turns scores into weights, and along which axis; dropout after it."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, core, noise, seeded, usual
from .truth import Style, Truth

SCALE = 8**-0.5


def around(normalise: Any) -> Any:
    """Scores, a normaliser, context: everything else in its plainest form."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return normalise(q @ k.transpose(-2, -1) / math.sqrt(8)) @ v

    return function


def by_hand(scores: Tensor) -> Tensor:
    """Exponentials over their sum."""
    e = torch.exp(scores)
    return e / torch.sum(e, dim=-1, keepdim=True)


def minus_max(scores: Tensor) -> Tensor:
    """The same, safely."""
    e = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return e / e.sum(-1, keepdim=True)


def logsumexp(scores: Tensor) -> Tensor:
    """exp(scores - logsumexp)."""
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


def log_softmax(scores: Tensor) -> Tensor:
    """exp(log_softmax)."""
    return F.log_softmax(scores, dim=-1).exp()


def off_by_one(scores: Tensor) -> Tensor:
    """exp / (1 + Σ exp): a query may attend to nothing."""
    e = torch.exp(scores)
    return e / (1 + e.sum(dim=-1, keepdim=True))


def relu_over_length(scores: Tensor) -> Tensor:
    """ReLU divided by the number of keys."""
    return F.relu(scores) / scores.shape[-1]


def relu_squared(scores: Tensor) -> Tensor:
    """ReLU² divided by the number of keys."""
    return torch.relu(scores).square() / scores.size(-1)


def sigmoid_with_bias(scores: Tensor) -> Tensor:
    """A sigmoid per score, lowered by the logarithm of the number of keys."""
    return torch.sigmoid(scores - math.log(scores.shape[-1]))


def sparsemax(scores: Tensor) -> Tensor:
    """Euclidean projection onto the simplex, by sorting."""
    ordered = scores.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype)
    sums = ordered.cumsum(dim=-1)
    support = (1 + ranks * ordered > sums).sum(dim=-1, keepdim=True)
    threshold = (sums.gather(-1, support - 1) - 1) / support
    return torch.clamp(scores - threshold, min=0)


def entmax(scores: Tensor) -> Tensor:
    """1.5-entmax by bisection."""
    x = scores / 2
    low = x.amax(-1, keepdim=True) - 1
    high = low + 1
    for _ in range(40):
        middle = (low + high) / 2
        mass = (x - middle).clamp(min=0).square().sum(-1, keepdim=True)
        low, high = torch.where(mass >= 1, middle, low), torch.where(mass >= 1, high, middle)
    p = (x - low).clamp(min=0) ** 2
    return p / p.sum(-1, keepdim=True)


def absolute_shares(scores: Tensor) -> Tensor:
    """Scores over the sum of their absolute values."""
    return F.normalize(scores, p=1, dim=-1)


def divide_afterwards(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Exponentials meet the values; the sum divides the context."""
    scores = q @ k.transpose(-1, -2) * SCALE
    unnormalised = torch.exp(scores)
    return (unnormalised @ v) / unnormalised.sum(dim=-1, keepdim=True)


def divided_output(m: Any, truth: Truth) -> Tensor:
    """Context over the sums of the exponentials."""
    context = truth.read / truth.weights.sum(-1, keepdim=True)
    return m.out(context.transpose(1, 2).flatten(2))


def over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The wrong axis: dim=2 where the keys are dim 3."""
    return F.softmax(q @ k.mT / 8**0.5, dim=2) @ v


def over_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The implicit axis taken as in old versions: the heads."""
    return torch.softmax(torch.matmul(q, k.mT) / 8**0.5, 1) @ v


class OverBatch(Projections):
    """Sequence-first input read as batch-first: tokens attend across the samples."""

    def forward(self, x: Tensor) -> Tensor:
        """Take x ``(tokens, batch, width)`` for ``(batch, tokens, width)``."""
        B, L, _ = x.shape
        q = self.q(x).view(B, L, self.heads, self.head_dim).transpose(1, 2)
        k = self.k(x).view(B, L, self.heads, self.head_dim).transpose(1, 2)
        v = self.v(x).view(B, L, self.heads, self.head_dim).transpose(1, 2)
        attn = F.softmax(q @ k.transpose(-2, -1) / self.head_dim**0.5, dim=-1)
        return self.out((attn @ v).transpose(1, 2).reshape(B, L, -1))


class Dropout(Core):
    """Dropout on the weights, in train mode; by a module, a function or a method of neither."""

    def __init__(self, way: str, p: float) -> None:
        super().__init__(self.attend)
        self.way = way
        self.dropout = nn.Dropout(p)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with dropped weights."""
        weights = (q @ k.transpose(-2, -1) * SCALE).softmax(-1)
        p = self.dropout.p
        if self.way == "module":
            weights = self.dropout(weights)
        elif self.way == "function":
            weights = F.dropout(weights, p=p, training=self.training)
        else:
            weights = weights * (torch.rand_like(weights) >= p) / (1 - p)
        return weights @ v


def dropping(way: str, p: float) -> Any:
    """Build a `Dropout` that trains."""
    build = seeded(Dropout, way, p)
    return lambda: build().train()


def dropped_truth(m: Any, inputs: Any) -> Truth:
    """Weights before the dropout; the context depends on the generator."""
    plain = usual()(m, inputs)
    return Truth(q=plain.q, k=plain.k, v=plain.v, weights=plain.weights, context=None, scale=SCALE)


def normalised(name: str, normalise: Any, word: str = "softmax", **facts: Any) -> Style:
    """A style around a normaliser; for other words than softmax it is its own definition."""
    truth = usual() if word == "softmax" else usual(normalise=normalise)
    return Style(name=name, build=core(around(normalise)), normaliser=word, truth=truth, **facts)


def exp_truth(m: Any, inputs: Any) -> Truth:
    """Weights are bare exponentials."""
    return usual(normalise=torch.exp)(m, inputs)


def axis_truth(axis: int) -> Any:
    """Truth of a softmax along another axis."""
    return usual(normalise=lambda scores: scores.softmax(axis))


STYLES: tuple[Style, ...] = (
    normalised("softmax-module", nn.Softmax(dim=-1)),
    normalised("softmax-exp-over-sum", by_hand),
    normalised("softmax-minus-max", minus_max),
    normalised("softmax-logsumexp", logsumexp),
    normalised("softmax-log-softmax-exp", log_softmax),
    normalised("softmax-off-by-one", off_by_one, "softmax-off-by-one"),
    normalised("sigmoid", torch.sigmoid, "sigmoid"),
    Style(
        name="sigmoid-minus-log-length", build=core(around(sigmoid_with_bias)), bias=True,
        normaliser="sigmoid",
        truth=usual(bias=torch.tensor(-math.log(5)), normalise=torch.sigmoid),
    ),
    normalised("relu-over-length", relu_over_length, "relu"),
    normalised("relu-squared-over-length", relu_squared, "relu-squared"),
    normalised("sparsemax-by-hand", sparsemax, "sparsemax"),
    normalised("entmax-by-bisection", entmax, "entmax"),
    normalised("absolute-shares", absolute_shares, "unknown", unknown=("normaliser",)),
    Style(
        name="exp-divided-after-values", build=core(divide_afterwards), normaliser="exp",
        truth=exp_truth, output=divided_output,
        note="weights are bare exponentials, the context is divided by their sum afterwards",
    ),
    Style(
        name="softmax-over-queries", build=core(over_queries), normaliser_axis="queries",
        truth=axis_truth(2),
    ),
    Style(
        name="softmax-over-heads", build=core(over_heads), normaliser_axis="heads",
        truth=axis_truth(1),
    ),
    Style(
        name="attention-over-the-batch", build=seeded(OverBatch),
        inputs=lambda: (noise(5, 2, 20),), batch=5, queries=2, keys=2, truth=usual(),
        note="input is (tokens, batch, width); the call's batch axis holds the tokens",
    ),
    Style(
        name="dropout-module", build=dropping("module", 0.3), dropout=0.3,
        truth=dropped_truth, output=None,
    ),
    Style(
        name="dropout-function", build=dropping("function", 0.2), dropout=0.2,
        truth=dropped_truth, output=None,
    ),
    Style(
        name="dropout-by-hand", build=dropping("hand", 0.4), dropout=0.4,
        truth=dropped_truth, output=None,
        note="a random mask times the weights; no dropout function is called",
    ),
)  # fmt: skip
