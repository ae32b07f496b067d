"""Attention written with einsum: letters, ellipses, and where the heads lie."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, einsum, nn

from .projections import Projections, core, noise, seeded, usual
from .truth import Style, Truth, attend


def bhid(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Heads before tokens, i and j for queries and keys."""
    dots = einsum("b h i d, b h j d -> b h i j", q, k) * 8**-0.5
    return einsum("b h i j, b h j d -> b h i d", dots.softmax(dim=-1), v)


def odd_letters(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Letters that say nothing."""
    s = torch.einsum("zyxw,zyuw->zyxu", q, k) / 8**0.5
    return torch.einsum("zyxu,zyut->zyxt", torch.softmax(s, 3), v)


def ellipsis(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Only what is contracted is named."""
    a = torch.einsum("...qd,...kd->...qk", q * 8**-0.5, k).softmax(-1)
    return torch.einsum("...qk,...kd->...qd", a, v)


def sublists(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Operands and lists of axis numbers in turn."""
    a = torch.einsum(q, [0, 1, 2, 4], k, [0, 1, 3, 4], [0, 1, 2, 3])
    a = (a * 8**-0.5).softmax(-1)
    return torch.einsum(a, [0, 1, 2, 3], v, [0, 1, 3, 4], [0, 1, 2, 4])


def keys_before_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores laid keys by queries, normalised over dim -2."""
    s = einsum("bhqd,bhkd->bhkq", q, k) * 8**-0.5
    return einsum("bhkq,bhkd->bhqd", s.softmax(-2), v)


def scale_as_operand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Three operands: the scale is one of them."""
    scale = torch.tensor(8**-0.5)
    s = torch.einsum("bhqd,bhkd,->bhqk", q, k, scale)
    return torch.einsum("bhqk,bhkd->bhqd", s.softmax(-1), v)


def sum_inside(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Products without a sum by einsum, then the sum apart."""
    s = torch.einsum("bhqd,bhkd->bhqkd", q, k).sum(-1) * 8**-0.5
    return torch.einsum("bhqk,bhkd->bhqd", s.softmax(-1), v)


class HeadsAfterTokens(Projections):
    """A tutorial's layout: N, length, heads, head_dim throughout."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        N, length, _ = x.shape
        queries = self.q(x).reshape(N, length, self.heads, self.head_dim)
        keys = self.k(x).reshape(N, length, self.heads, self.head_dim)
        values = self.v(x).reshape(N, length, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        attention = torch.softmax(energy / (self.head_dim ** (1 / 2)), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values])
        return self.out(out.reshape(N, length, self.heads * self.head_dim))


class ScoresHeadsLast(Projections):
    """Heads are the last axis of the scores too."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        scores = einsum("bqhd,bkhd->bqkh", q, k) / self.head_dim**0.5
        return self.out(einsum("bqkh,bkhd->bqhd", scores.softmax(2), v).flatten(2))


class ForecasterLayout(Projections):
    """Letters of time-series models: blhe, bshe, bhls."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        B, L, _ = x.shape
        H = self.heads
        queries, keys, values = (f(x).view(B, L, H, -1) for f in (self.q, self.k, self.v))
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        A = torch.softmax(1.0 / queries.shape[-1] ** 0.5 * scores, dim=-1)
        V = torch.einsum("bhls,bshd->blhd", A, values).contiguous()
        return self.out(V.view(B, L, -1))


class FeatureColumns(Projections):
    """Head_dim before heads, tokens last: features are read as (head_dim, heads)."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        batch = x.shape[0]
        query, key, value = (
            layer(x).transpose(1, 2).reshape(batch, self.head_dim, self.heads, -1)
            for layer in (self.q, self.k, self.v)
        )
        scores = torch.einsum("bdhn,bdhm->bhnm", query, key) / self.head_dim**0.5
        mixed = torch.einsum("bhnm,bdhm->bdhn", torch.softmax(scores, dim=-1), value)
        return self.out(mixed.reshape(batch, self.heads * self.head_dim, -1).transpose(1, 2))


def columns_truth(module: Any, inputs: Any) -> Truth:
    """Truth where features are read as (head_dim, heads)."""
    (x,) = inputs
    return attend(
        *(f(x).view(2, 5, 8, 3).permute(0, 3, 1, 2) for f in (module.q, module.k, module.v))
    )


def columns_output(module: Any, truth: Truth) -> Tensor:
    """Merge back in the order (head_dim, heads)."""
    return module.out(truth.read.permute(0, 2, 3, 1).flatten(2))


class DenseGeneral(nn.Module):
    """Parameters keep their heads axis, as in other frameworks; values are narrower."""

    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Parameter(torch.randn(20, 3, 8) * 0.2)
        self.wk = nn.Parameter(torch.randn(20, 3, 8) * 0.2)
        self.wv = nn.Parameter(torch.randn(20, 3, 6) * 0.2)
        self.wo = nn.Parameter(torch.randn(3, 6, 20) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q = torch.einsum("btc,chd->bthd", x, self.wq)
        k = torch.einsum("btc,chd->bthd", x, self.wk)
        v = torch.einsum("btc,chd->bthd", x, self.wv)
        logits = torch.einsum("bthd,bThd->bhtT", q, k) / self.wq.shape[-1] ** 0.5
        return torch.einsum("bhtT,bThd,hdc->btc", logits.softmax(-1), v, self.wo)


class DenseGeneralTwoSteps(DenseGeneral):
    """The same with the output layer as a contraction of its own."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (torch.einsum("btc,chd->bhtd", x, w) for w in (self.wq, self.wk, self.wv))
        weights = (torch.einsum("bhqd,bhkd->bhqk", q, k) / 8**0.5).softmax(-1)
        context = torch.einsum("bhqk,bhkd->bqhd", weights, v)
        return torch.einsum("bqhd,hdc->bqc", context, self.wo)


def dense_truth(module: Any, inputs: Any) -> Truth:
    """Truth of the two above."""
    (x,) = inputs
    weights = (module.wq, module.wk, module.wv)
    return attend(*(torch.tensordot(x, w, 1).transpose(1, 2) for w in weights))


def dense_output(module: Any, truth: Truth) -> Tensor:
    """Contract heads and values with the output parameter."""
    return torch.tensordot(truth.read.transpose(1, 2), module.wo, 2)


class Recurrent(Projections):
    """Sequence first, as in models with memory: ibnd, jbnd, ijbn, softmax over dim 1."""

    def forward(self, w: Tensor) -> Tensor:
        """Attend within w ``(tokens, batch, width)``."""
        qlen, bsz = w.shape[:2]
        head_q, head_k, head_v = (
            f(w).view(qlen, bsz, self.heads, self.head_dim) for f in (self.q, self.k, self.v)
        )
        attn_score = torch.einsum("ibnd,jbnd->ijbn", head_q, head_k)
        attn_score.mul_(1 / (self.head_dim**0.5))
        attn_prob = torch.softmax(attn_score, dim=1)
        attn_vec = torch.einsum("ijbn,jbnd->ibnd", attn_prob, head_v)
        return self.out(attn_vec.contiguous().view(qlen, bsz, -1))


def sequence_first(module: Any, inputs: Any) -> Truth:
    """Truth where tokens are the first axis."""
    (w,) = inputs
    return usual()(module, (w.transpose(0, 1),))


def sequence_first_output(module: Any, truth: Truth) -> Tensor:
    """Merge the heads, tokens first."""
    return module.out(truth.read.permute(2, 0, 1, 3).flatten(2))


STYLES: tuple[Style, ...] = (
    Style(name="einsum-bhid", build=core(bhid), truth=usual()),
    Style(name="einsum-odd-letters", build=core(odd_letters), truth=usual()),
    Style(name="einsum-ellipsis", build=core(ellipsis), truth=usual()),
    Style(name="einsum-sublists", build=core(sublists), truth=usual()),
    Style(name="einsum-keys-before-queries", build=core(keys_before_queries), truth=usual()),
    Style(
        name="einsum-scale-as-operand",
        build=core(scale_as_operand),
        scale_tensor=True,
        truth=usual(),
    ),
    Style(name="einsum-then-sum", build=core(sum_inside), truth=usual()),
    Style(name="einsum-heads-after-tokens", build=seeded(HeadsAfterTokens), truth=usual()),
    Style(name="einsum-scores-heads-last", build=seeded(ScoresHeadsLast), truth=usual()),
    Style(name="einsum-blhe", build=seeded(ForecasterLayout), truth=usual()),
    Style(
        name="einsum-tokens-last",
        build=seeded(FeatureColumns),
        truth=columns_truth,
        output=columns_output,
    ),
    Style(
        name="einsum-dense-general-fused-output",
        build=seeded(DenseGeneral),
        value_dim=6,
        truth=dense_truth,
        output=dense_output,
        note="the second contraction and the output layer are one einsum of three operands",
    ),
    Style(
        name="einsum-dense-general",
        build=seeded(DenseGeneralTwoSteps),
        value_dim=6,
        truth=dense_truth,
        output=dense_output,
    ),
    Style(
        name="einsum-sequence-first",
        build=seeded(Recurrent),
        inputs=lambda: (noise(5, 2, 20),),
        truth=sequence_first,
        output=sequence_first_output,
    ),
)
