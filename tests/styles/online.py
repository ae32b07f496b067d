"""Attention cut along the keys: running maxima, merged log-sum-exps, unnormalised sums."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .projections import core, lower, noise, split, usual
from .truth import Inputs, Style, Truth, attend


def running_maximum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Chunks of three keys; what was summed so far is rescaled when the maximum grows."""
    q = q * q.shape[-1] ** -0.5
    out = torch.zeros_like(q)
    row_sum = q.new_zeros(*q.shape[:3], 1)
    row_max = q.new_full((*q.shape[:3], 1), -torch.finfo(q.dtype).max)
    for kc, vc in zip(k.split(3, dim=-2), v.split(3, dim=-2), strict=True):
        scores = torch.einsum("...id,...jd->...ij", q, kc)
        new_max = torch.maximum(scores.amax(dim=-1, keepdim=True), row_max)
        exp_weights = torch.exp(scores - new_max)
        correction = torch.exp(row_max - new_max)
        row_sum = correction * row_sum + exp_weights.sum(dim=-1, keepdim=True)
        out.mul_(correction).add_(torch.einsum("...ij,...jd->...id", exp_weights, vc))
        row_max = new_max
    return out / row_sum


def causal_tiles(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Tiles of queries and keys; tiles wholly in the future are left out."""
    rows = []
    for i in range(0, q.shape[2], 4):
        qi = q[:, :, i : i + 4]
        m = torch.full((*qi.shape[:3], 1), -torch.inf)
        total, acc = torch.zeros_like(m), torch.zeros_like(qi)
        for j in range(0, i + qi.shape[2], 4):
            s = qi @ k[:, :, j : j + 4].mT / math.sqrt(8)
            late = torch.arange(j, j + s.shape[3])[None] > torch.arange(i, i + s.shape[2])[:, None]
            s = s.masked_fill(late, -torch.inf)
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, alpha = torch.exp(s - m_new), torch.exp(m - m_new)
            total = total * alpha + p.sum(-1, keepdim=True)
            acc = acc * alpha + p @ v[:, :, j : j + 4]
            m = m_new
        rows.append(acc / total)
    return torch.cat(rows, dim=2)


def merged_by_logsumexp(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each chunk is a whole softmax; contexts are merged by their log-sum-exps."""
    outs, sums = [], []
    for kc, vc in zip(k.split(3, dim=2), v.split(3, dim=2), strict=True):
        scores = q @ kc.transpose(-1, -2) / math.sqrt(8)
        outs.append(scores.softmax(-1) @ vc)
        sums.append(scores.logsumexp(-1, keepdim=True))
    shares = torch.softmax(torch.stack(sums), dim=0)
    return (shares * torch.stack(outs)).sum(0)


def chunk_summary(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Exponentials times values, sums of exponentials, and the maximum of one chunk."""
    weights = torch.einsum("bhqd,bhkd->bhqk", q, k)
    max_score = weights.max(dim=-1, keepdim=True).values.detach()
    exp_weights = torch.exp(weights - max_score)
    return (
        torch.einsum("bhkv,bhqk->bhqv", v, exp_weights),
        exp_weights.sum(dim=-1, keepdim=True),
        max_score,
    )


def checkpointed_summaries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Summaries of all chunks first, each under a checkpoint, then one global maximum."""
    q = q / math.sqrt(8)
    parts = [
        checkpoint(chunk_summary, q, kc, vc, use_reentrant=False)
        for kc, vc in zip(k.split(3, 2), v.split(3, 2), strict=True)
    ]
    values, sums, maxima = (torch.stack(part) for part in zip(*parts, strict=True))
    factor = torch.exp(maxima - maxima.amax(dim=0, keepdim=True))
    return (values * factor).sum(0) / (sums * factor).sum(0)


def split_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Past and present keys scored apart, one softmax over both, two products summed."""
    past = q @ k[:, :, :4].mT
    present = q @ k[:, :, 4:].mT
    weights = torch.cat((past, present), dim=-1).div(8**0.5).softmax(dim=-1)
    return weights[..., :4] @ v[:, :, :4] + weights[..., 4:] @ v[:, :, 4:]


def seven() -> Inputs:
    """Seven tokens."""
    return (noise(2, 7, 20),)


def last_tile(m: Any, inputs: Any) -> Truth:
    """The last three queries, over all keys."""
    (x,) = inputs
    q, k, v = (split(f(x), 3) for f in (m.q, m.k, m.v))
    return attend(q[:, :, 4:], k, v, visible=lower(3, 7))


STYLES: tuple[Style, ...] = (
    Style(
        name="online-running-maximum", build=core(running_maximum), inputs=seven, pieces=3,
        queries=7, keys=7, truth=usual(),
        note="three chunks of exponentials; facts and truth are those of the whole",
    ),
    Style(
        name="online-causal-tiles", build=core(causal_tiles), inputs=seven, calls=2,
        queries=3, keys=7, mask=frozenset({"causal-bottom-right"}), visible=18 / 21,
        truth=last_tile, output=None,
        note="two tiles of queries, a call each, over one and two tiles of keys",
    ),
    Style(
        name="online-merged-by-logsumexp", build=core(merged_by_logsumexp), inputs=seven,
        pieces=3, queries=7, keys=7, truth=usual(),
        note="each chunk is itself a softmax over its keys",
    ),
    Style(
        name="online-checkpointed-summaries", build=core(checkpointed_summaries), inputs=seven,
        pieces=3, queries=7, keys=7, truth=usual(),
    ),
    Style(
        name="keys-in-two-parts", build=core(split_by_hand), inputs=seven, pieces=2, queries=7,
        keys=7, truth=usual(),
        note="one softmax over two products of scores, then two products with values",
    ),
)  # fmt: skip
