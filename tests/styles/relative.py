"""Relative positions as products with queries or keys; they enter the scores as a bias."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, lower, merge, noise, seeded, split, usual
from .truth import ROOT, Style, Truth, attend

DISTANCE = torch.arange(5)[:, None] - torch.arange(5)[None, :]


def clipped(limit: int = 2) -> Tensor:
    """Distances key minus query, clipped, counted from zero."""
    return (-DISTANCE).clamp(-limit, limit) + limit


class Shaw(Core):
    """A vector per clipped distance is added to every key; here as a second product."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.relative_k = nn.Embedding(5, 8)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: matmul with tokens in front for the second product."""
        b, h, n, d = q.shape
        r_k = self.relative_k(clipped())
        attn1 = torch.matmul(q, k.permute(0, 1, 3, 2))
        r_q = q.permute(2, 0, 1, 3).contiguous().view(n, b * h, d)
        attn2 = torch.matmul(r_q, r_k.transpose(1, 2)).transpose(0, 1)
        attn = (attn1 + attn2.contiguous().view(b, h, n, n)) / math.sqrt(d)
        return torch.matmul(torch.softmax(attn, dim=-1), v)


def shaw_bias(m: Any, inputs: Any) -> Tensor:
    """Scaled products of queries with distance vectors."""
    q = split(m.q(inputs[0]), 3)
    return torch.einsum("bhqd,qkd->bhqk", q, m.relative_k.weight[clipped()]) * ROOT


class ShawValues(Shaw):
    """Vectors per distance for the values as well: two contractions from the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.relative_v = nn.Embedding(5, 8)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend by einsum."""
        index = clipped()
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores + torch.einsum("bhqd,qkd->bhqk", q, self.relative_k(index))
        weights = (scores * q.shape[-1] ** -0.5).softmax(-1)
        context = torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return context + torch.einsum("bhqk,qkd->bhqd", weights, self.relative_v(index))


def shaw_values_output(m: Any, truth: Truth) -> Tensor:
    """What the values' distance vectors add comes after the context."""
    more = torch.einsum("bhqk,qkd->bhqd", truth.weights, m.relative_v.weight[clipped()])
    return m.out(merge(truth.read + more))


class RelativeKeyQuery(Core):
    """Distance vectors meet queries and keys; all three sums are scaled together."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.distance_embedding = nn.Embedding(9, 8)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: matmul for the content, einsum for the distances."""
        attention_scores = torch.matmul(q, k.transpose(-1, -2))
        positional = self.distance_embedding(DISTANCE + 4).to(dtype=q.dtype)
        by_query = torch.einsum("bhld,lrd->bhlr", q, positional)
        by_key = torch.einsum("bhrd,lrd->bhlr", k, positional)
        attention_scores = attention_scores + by_query + by_key
        return F.softmax(attention_scores / math.sqrt(8), dim=-1) @ v


def key_query_bias(m: Any, inputs: Any) -> Tensor:
    """Scaled sum of both products."""
    q, k = split(m.q(inputs[0]), 3), split(m.k(inputs[0]), 3)
    table = m.distance_embedding.weight[DISTANCE + 4]
    both = (q[:, :, :, None] + k[:, :, None]) * table
    return both.sum(-1) * ROOT


class Extra(Projections):
    """Two learned vectors for all queries, sines for distances, and the shift by padding."""

    def __init__(self) -> None:
        super().__init__()
        self.r_net = nn.Linear(20, 24, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(3, 8) * 0.3)
        self.r_r_bias = nn.Parameter(torch.randn(3, 8) * 0.3)
        self.register_buffer("r", noise(7, 20, seed=5))

    @staticmethod
    def rel_shift(x: Tensor) -> Tensor:
        """Row i of x ``(queries, distances, batch, heads)`` moves so that distances align."""
        zero_pad = torch.zeros((x.size(0), 1, *x.size()[2:]))
        x_padded = torch.cat([zero_pad, x], dim=1).view(x.size(1) + 1, x.size(0), *x.size()[2:])
        return x_padded[1:].view_as(x)

    def forward(self, w: Tensor, mems: Tensor) -> Tensor:
        """Attend from w ``(tokens, batch, width)`` to mems and w, causally."""
        cat = torch.cat([mems, w], 0)
        qlen, klen, bsz = w.size(0), cat.size(0), w.size(1)
        q = self.q(w).view(qlen, bsz, 3, 8)
        k, v = (f(cat).view(klen, bsz, 3, 8) for f in (self.k, self.v))
        r_head_k = self.r_net(self.r).view(klen, 3, 8)
        AC = torch.einsum("ibnd,jbnd->ijbn", (q + self.r_w_bias, k))
        BD = torch.einsum("ibnd,jnd->ijbn", (q + self.r_r_bias, r_head_k))
        attn_score = (AC + self.rel_shift(BD)).mul_(8**-0.5)
        hidden = torch.triu(torch.ones(qlen, klen), diagonal=1 + klen - qlen).bool()
        attn_score = attn_score.masked_fill(hidden[:, :, None, None], -1e30)
        attn_vec = torch.einsum("ijbn,jbnd->ibnd", (F.softmax(attn_score, dim=1), v))
        return self.out(attn_vec.reshape(qlen, bsz, 24))


def extra_truth(m: Any, inputs: Any) -> Truth:
    """Query carries the first vector; the second goes into the bias, row j - i + 2 of r."""
    w, mems = inputs
    full = torch.cat((mems, w)).transpose(0, 1)
    q = split(m.q(w.transpose(0, 1)), 3)
    r = m.r_net(m.r).view(7, 3, 8)
    rows = (torch.arange(7)[None] - torch.arange(3)[:, None] + 2).clamp(max=6)
    bias = torch.einsum("bhqd,qkhd->bhqk", q + m.r_r_bias[:, None], r[rows]) * ROOT
    return attend(
        q + m.r_w_bias[:, None], split(m.k(full), 3), split(m.v(full), 3),
        bias=bias, visible=lower(3, 7),
    )  # fmt: skip


def tokens_first(m: Any, truth: Truth) -> Tensor:
    """Output with tokens before the batch."""
    return m.out(truth.read.permute(2, 0, 1, 3).flatten(2))


class Disentangled(Projections):
    """Content to position and position to content, by gather; scale over three terms."""

    def __init__(self) -> None:
        super().__init__()
        self.rel_embeddings = nn.Parameter(torch.randn(6, 20) * 0.5)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Attend, batch and heads folded."""
        B, L, _ = hidden_states.shape

        def transpose_for_scores(x: Tensor) -> Tensor:
            x = x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)
            return x.contiguous().view(-1, x.size(2), x.size(-1))

        layers = (self.q, self.k, self.v)
        query, key, value = (transpose_for_scores(f(hidden_states)) for f in layers)
        scale = math.sqrt(query.size(-1) * 3)
        scores = torch.bmm(query, key.transpose(-1, -2) / scale)
        table = self.rel_embeddings.unsqueeze(0)
        pos_key = transpose_for_scores(self.k(table)).repeat(B, 1, 1)
        pos_query = transpose_for_scores(self.q(table)).repeat(B, 1, 1)
        c2p_pos = torch.clamp(DISTANCE + 3, 0, 5).expand(B * self.heads, L, L)
        c2p_att = torch.bmm(query, pos_key.transpose(-1, -2))
        scores = scores + torch.gather(c2p_att, dim=-1, index=c2p_pos) / scale
        p2c_pos = torch.clamp(-DISTANCE + 3, 0, 5).expand(B * self.heads, L, L)
        p2c_att = torch.bmm(key, pos_query.transpose(-1, -2))
        scores += torch.gather(p2c_att, dim=-1, index=p2c_pos).transpose(-1, -2) / scale
        probs = torch.softmax(scores.view(B, self.heads, L, L), dim=-1)
        context = torch.bmm(probs.view(-1, L, L), value)
        context = context.view(B, self.heads, L, -1).permute(0, 2, 1, 3).contiguous()
        return self.out(context.view(B, L, -1))


def disentangled_bias(m: Any, inputs: Any) -> Tensor:
    """Row i - j + 3 of the table, clipped, as a key for c2p and as a query for p2c."""
    (x,) = inputs
    index = (DISTANCE + 3).clamp(0, 5)
    as_key = m.k(m.rel_embeddings).view(6, 3, 8)[index]
    as_query = m.q(m.rel_embeddings).view(6, 3, 8)[index]
    c2p = torch.einsum("bhqd,qkhd->bhqk", split(m.q(x), 3), as_key)
    p2c = torch.einsum("bhkd,qkhd->bhqk", split(m.k(x), 3), as_query)
    return (c2p + p2c) / math.sqrt(24)


class Skewed(Core):
    """Music: queries times all distance vectors, skewed by padding and reshaping; causal."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.Er = nn.Parameter(torch.randn(5, 8))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend; entries above the diagonal of the skewed product are garbage and masked."""
        QEr = torch.matmul(q, self.Er.t())
        padded = F.pad(QEr, (1, 0))
        b, h, rows, cols = padded.shape
        Srel = padded.reshape(b, h, cols, rows)[:, :, 1:, :]
        attn = (torch.matmul(q, k.transpose(2, 3)) + Srel) / math.sqrt(q.size(-1))
        mask = torch.tril(torch.ones(5, 5)).unsqueeze(0).unsqueeze(0)
        attn = attn.masked_fill(mask == 0, float("-inf"))
        return torch.matmul(F.softmax(attn, dim=-1), v)


def skewed_bias(m: Any, inputs: Any) -> Tensor:
    """Row j - i + 4 of the table, where that exists."""
    q = split(m.q(inputs[0]), 3)
    table = m.Er[(4 - DISTANCE).clamp(max=4)]
    return torch.einsum("bhqd,qkd->bhqk", q, table) * ROOT


STYLES: tuple[Style, ...] = (
    Style(name="relative-shaw-keys", build=seeded(Shaw), bias=True, truth=usual(bias=shaw_bias)),
    Style(
        name="relative-shaw-keys-and-values",
        build=seeded(ShawValues),
        bias=True,
        truth=usual(bias=shaw_bias),
        output=shaw_values_output,
        note="the weights also meet distance vectors; that sum is added to the context",
    ),
    Style(
        name="relative-key-query",
        build=seeded(RelativeKeyQuery),
        bias=True,
        truth=usual(bias=key_query_bias),
    ),
    Style(
        name="relative-shift-two-vectors",
        build=seeded(Extra),
        inputs=lambda: (noise(3, 2, 20), noise(4, 2, 20, seed=3)),
        queries=3,
        keys=7,
        mask=frozenset({"causal-bottom-right"}),
        visible=18 / 21,
        bias=True,
        truth=extra_truth,
        output=tokens_first,
    ),
    Style(
        name="relative-disentangled-gather",
        build=seeded(Disentangled),
        scale=24**-0.5,
        bias=True,
        truth=usual(24**-0.5, bias=disentangled_bias),
    ),
    Style(
        name="relative-skewed",
        build=seeded(Skewed),
        mask=frozenset({"causal"}),
        visible=0.6,
        bias=True,
        truth=usual(visible=lower(), bias=skewed_bias),
    ),
)
