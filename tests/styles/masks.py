"""Causal and custom masks, every way people write them."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, core, lower, noise, seeded, split, usual
from .truth import Style, Truth, attend

CAUSAL = frozenset({"causal"})
DIRECTED = torch.tensor(
    [[1, 0, 0, 1, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 1], [1, 0, 0, 1, 0], [0, 0, 1, 1, 1]]
)


class TrilBuffer(nn.Module):
    """A lower triangle of the largest length kept as a buffer and sliced; one fused layer."""

    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(20, 72)
        self.out = nn.Linear(24, 20)
        self.attn_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(9, 9)).view(1, 1, 9, 9))

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        B, T, _ = x.size()
        q, k, v = self.c_attn(x).split(24, dim=2)
        k = k.view(B, T, 3, 8).transpose(1, 2)
        q = q.view(B, T, 3, 8).transpose(1, 2)
        v = v.view(B, T, 3, 8).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        return self.out(y.transpose(1, 2).contiguous().view(B, T, -1))


def tril_truth(module: Any, inputs: Any) -> Truth:
    """Thirds of the fused layer, causal."""
    q, k, v = (split(t, 3) for t in module.c_attn(inputs[0]).chunk(3, dim=2))
    return attend(q, k, v, visible=lower())


def triu_in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A boolean upper triangle without the diagonal, masked_fill_."""
    scores = q @ k.mT / math.sqrt(8)
    future = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu_(diagonal=1)
    scores.masked_fill_(future, -math.inf)
    return scores.softmax(-1) @ v


def triu_added(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A float matrix with -inf above the diagonal, added."""
    mask = torch.triu(torch.full((5, 5), float("-inf")), diagonal=1)
    return torch.softmax(q @ k.mT * 8**-0.5 + mask, dim=-1) @ v


def where_lowest(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch.where with the lowest finite number."""
    attn_weights = torch.matmul(q, k.transpose(-1, -2)) / 8**0.5
    keep = torch.tril(torch.ones((5, 5), dtype=torch.bool))
    lowest = torch.full([], torch.finfo(attn_weights.dtype).min)
    attn_weights = torch.where(keep, attn_weights, lowest)
    return torch.matmul(nn.functional.softmax(attn_weights, dim=-1), v)


def index_put(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Assignment by a boolean index."""
    scores = q @ k.transpose(-1, -2) * 8**-0.5
    visible = lower().expand_as(scores)
    scores[~visible] = float("-inf")
    return F.softmax(scores, dim=-1) @ v


def slice_assignment(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each query's later keys overwritten by a slice."""
    scores = torch.matmul(q, k.mT).div_(8**0.5)
    for i in range(scores.shape[-2] - 1):
        scores[..., i, i + 1 :] = -1e9
    return scores.softmax(-1).matmul(v)


def multiply_and_shift(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores times mask, minus a large number times its complement."""
    w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
    b = torch.tril(torch.ones(5, 5))
    w = w * b + -1e4 * (1 - b)
    return torch.matmul(nn.Softmax(dim=-1)(w), v)


def after_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Masked too late: the rows no longer sum to one."""
    weights = (q @ k.mT * 8**-0.5).softmax(-1)
    return (weights * torch.tril(torch.ones(5, 5))) @ v


def after_softmax_renormalised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Masked after the softmax and divided by what is left."""
    weights = (q @ k.mT * 8**-0.5).softmax(-1)
    weights = torch.tril(weights)
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ v


def before_and_after(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Masked with a finite number, then zeroed again after the softmax."""
    hidden = ~lower()
    weights = (q @ k.mT * 8**-0.5).masked_fill(hidden, -1e9).softmax(-1)
    return weights.masked_fill(hidden, 0.0) @ v


def renormalised(weights: Tensor) -> Tensor:
    """Lower triangle of the weights, rows summing to one."""
    left = weights * lower()
    return left / left.sum(-1, keepdim=True)


def argument_zero(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """A 0/1 mask that is an input; zero means hidden."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(8)
    if mask is not None:
        scores = scores.masked_fill(mask.unsqueeze(0).unsqueeze(0) == 0, -1e9)
    return torch.matmul(scores.softmax(dim=-1), v)


class BottomRight(Projections):
    """Three new queries, seven keys; the causal mask ends in the bottom right corner."""

    def forward(self, x: Tensor, past: Tensor) -> Tensor:
        """Attend from x to past and x."""
        everything = torch.cat((past, x), dim=1)
        q = split(self.q(x), self.heads)
        k, v = (split(f(everything), self.heads) for f in (self.k, self.v))
        nd, ns = q.size(-2), k.size(-2)
        i = torch.arange(nd)[:, None]
        j = torch.arange(ns)
        w = q @ k.transpose(-1, -2) / 8**0.5
        w = w.masked_fill(i < j - ns + nd, torch.finfo(w.dtype).min)
        return self.out((w.softmax(-1) @ v).transpose(1, 2).flatten(2))


def bottom_right_truth(m: Any, inputs: Any) -> Truth:
    """Keys are past and new tokens."""
    x, past = inputs
    full = torch.cat((past, x), dim=1)
    return attend(split(m.q(x), 3), split(m.k(full), 3), split(m.v(full), 3), visible=lower(3, 7))


class BaddbmmMask(Projections):
    """Mask as the input of baddbmm, scale as its alpha, batch and heads folded."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (
            split(f(x), self.heads).reshape(-1, x.shape[1], self.head_dim)
            for f in (self.q, self.k, self.v)
        )
        mask = torch.full((1, 5, 5), torch.finfo(x.dtype).min).triu(1)
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), beta=1.0, alpha=8**-0.5)
        context = torch.bmm(scores.softmax(-1), v).view(-1, self.heads, x.shape[1], 8)
        return self.out(context.transpose(1, 2).flatten(2))


def causal(name: str, function: Any) -> Style:
    """A causal style around a function."""
    return Style(
        name=name, build=core(function), mask=CAUSAL, visible=0.6, truth=usual(visible=lower())
    )


STYLES: tuple[Style, ...] = (
    Style(
        name="mask-tril-buffer",
        build=seeded(TrilBuffer),
        mask=CAUSAL,
        visible=0.6,
        truth=tril_truth,
    ),
    causal("mask-triu-masked-fill-in-place", triu_in_place),
    causal("mask-triu-infinity-added", triu_added),
    causal("mask-where-lowest", where_lowest),
    causal("mask-index-put", index_put),
    causal("mask-slice-assignment", slice_assignment),
    causal("mask-multiply-and-shift", multiply_and_shift),
    Style(
        name="mask-after-softmax",
        build=core(after_softmax),
        after=("mask",),
        truth=usual(change=torch.tril),
    ),
    Style(
        name="mask-after-softmax-renormalised",
        build=core(after_softmax_renormalised),
        after=("mask", "divide"),
        truth=usual(change=renormalised),
    ),
    Style(
        name="mask-before-and-after-softmax",
        build=core(before_and_after),
        mask=CAUSAL,
        visible=0.6,
        after=("mask",),
        truth=usual(visible=lower()),
    ),
    Style(
        name="mask-argument-equals-zero",
        build=seeded(Core, argument_zero),
        inputs=lambda: (noise(2, 5, 20), DIRECTED),
        mask=frozenset({"custom"}),
        visible=0.48,
        truth=usual(visible=DIRECTED.bool()),
    ),
    Style(
        name="mask-bottom-right",
        build=seeded(BottomRight),
        inputs=lambda: (noise(2, 3, 20), noise(2, 4, 20, seed=3)),
        queries=3,
        keys=7,
        mask=frozenset({"causal-bottom-right"}),
        visible=18 / 21,
        truth=bottom_right_truth,
    ),
    Style(
        name="mask-baddbmm-input",
        build=seeded(BaddbmmMask),
        mask=CAUSAL,
        visible=0.6,
        truth=usual(visible=lower()),
    ),
)
