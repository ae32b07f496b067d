"""Where batch, heads and tokens lie: folded, missing, permuted, or more axes than usual."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .einsum import sequence_first, sequence_first_output
from .projections import Projections, noise, seeded, split, usual
from .truth import Style, Truth, attend


class FoldBatchOuter(Projections):
    """(batch, heads) in one axis, batch outer; sequence-first input; bmm."""

    def forward(self, query: Tensor) -> Tensor:
        """Attend within query ``(tokens, batch, width)``."""
        tgt_len, bsz, _ = query.size()
        q = self.q(query) * self.head_dim**-0.5
        k, v = self.k(query), self.v(query)
        q, k, v = (
            t.contiguous().view(-1, bsz * self.heads, self.head_dim).transpose(0, 1)
            for t in (q, k, v)
        )
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        assert list(attn_weights.size()) == [bsz * self.heads, tgt_len, tgt_len]
        attn_weights = F.softmax(attn_weights.float(), dim=-1).type_as(attn_weights)
        attn = torch.bmm(attn_weights, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, -1)
        return self.out(attn)


class FoldHeadsOuter(Projections):
    """(heads, batch) in one axis, heads outer: chunks concatenated along the batch."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        Q_, K_, V_ = (
            torch.cat(torch.chunk(f(x), self.heads, dim=2), dim=0) for f in (self.q, self.k, self.v)
        )
        outputs = torch.bmm(Q_, K_.permute(0, 2, 1))
        outputs = outputs / (K_.size()[-1] ** 0.5)
        outputs = torch.bmm(F.softmax(outputs, dim=-1), V_)
        return self.out(torch.cat(torch.chunk(outputs, self.heads, dim=0), dim=2))


class FoldByPermute(Projections):
    """Heads outer again, by permute(2, 0, 1, 3) and view, as in the first public port."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        n, size, _ = x.shape
        h, d = self.heads, self.head_dim
        q, k, v = (
            f(x).view(n, size, h, d).permute(2, 0, 1, 3).contiguous().view(-1, size, d)
            for f in (self.q, self.k, self.v)
        )
        attn = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d)
        output = torch.bmm(torch.softmax(attn, 2), v).view(h, n, size, d)
        return self.out(output.permute(1, 2, 0, 3).contiguous().view(n, size, -1))


class NoBatch(Projections):
    """One sequence, no batch axis: (heads, tokens, head_dim)."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(tokens, width)``."""
        q, k, v = (f(x).view(len(x), 3, 8).transpose(0, 1) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(1, 2)) / math.sqrt(8)
        return self.out(torch.matmul(scores.softmax(-1), v).transpose(0, 1).flatten(1))


class NoBatchNoHeads(Projections):
    """Nothing but tokens and features: mm and t()."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(tokens, width)``."""
        scores = torch.mm(self.q(x), self.k(x).t()) / 8**0.5
        return self.out(torch.mm(torch.softmax(scores, dim=1), self.v(x)))


class NoHeads(Projections):
    """Batch, tokens, features; value width differs."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 8**0.5
        return self.out(scores.softmax(2) @ self.v(x))


class FusedPermuted(nn.Module):
    """One layer for q, k and v, split by permute(2, 0, 3, 1, 4), as in vision transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 3
        self.scale = 8**-0.5
        self.qkv = nn.Linear(20, 72)
        self.out = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        B, N, _ = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        return self.out((attn @ v).transpose(1, 2).reshape(B, N, -1))


def fused_truth(module: Any, inputs: Any) -> Truth:
    """Truth of a fused layer whose thirds are q, k and v."""
    return attend(*(split(third, 3) for third in module.qkv(inputs[0]).chunk(3, dim=-1)))


class TokenOuterHeads(nn.Module):
    """A fused layer read head by head: (heads, 3 * head_dim), as in one large family."""

    def __init__(self) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(20, 72)
        self.out = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        mixed = self.query_key_value(x).view(*x.shape[:2], 3, 24)
        query, key, value = (t.transpose(1, 2) for t in torch.split(mixed, 8, dim=-1))
        scores = torch.matmul(query, key.transpose(-1, -2)) * 8**-0.5
        return self.out(torch.matmul(F.softmax(scores, -1), value).transpose(1, 2).flatten(2))


def headwise_truth(module: Any, inputs: Any) -> Truth:
    """Truth of a fused layer read head by head."""
    mixed = module.query_key_value(inputs[0]).view(2, 5, 3, 3, 8).permute(3, 0, 2, 1, 4)
    return attend(*mixed)


class FiveAxes(Projections):
    """Tokens stay in front: q (B, L, 1, H, D) ... a product per pair, batched by broadcasting."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        B, L, _ = x.shape
        q = self.q(x).view(B, L, self.heads, 1, -1)
        k = self.k(x).view(B, L, self.heads, -1).permute(0, 2, 3, 1)
        v = self.v(x).view(B, L, self.heads, -1).transpose(1, 2)
        weights = torch.softmax(torch.matmul(q, k[:, None]) * 8**-0.5, dim=-1)
        return self.out(torch.matmul(weights, v[:, None]).flatten(2))


class Frames(Projections):
    """Video: frames, places, width; attention over the places of each frame, heads last but one."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within each frame of x ``(batch, frames, places, width)``."""
        q, k, v = (f(x).unflatten(-1, (3, 8)).transpose(2, 3) for f in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)  # (b, f, h, p, p)
        return self.out((weights @ v).transpose(2, 3).flatten(3))


class Times(Projections):
    """Video again, over the frames of each place, by einsum without moving an axis."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within each place of x ``(batch, frames, places, width)``."""
        q, k, v = (f(x).unflatten(-1, (3, 8)) for f in (self.q, self.k, self.v))
        weights = torch.einsum("bfphd,bgphd->bphfg", q, k).mul(8**-0.5).softmax(dim=-1)
        return self.out(torch.einsum("bphfg,bgphd->bfphd", weights, v).flatten(3))


def frames_truth(module: Any, inputs: Any) -> Truth:
    """Frames folded into the batch."""
    return usual()(module, (inputs[0].flatten(0, 1),))


def frames_output(module: Any, truth: Truth) -> Tensor:
    """Frames taken out of the batch again."""
    return module.out(truth.merged).unflatten(0, (2, 4))


def times_truth(module: Any, inputs: Any) -> Truth:
    """Places folded into the batch."""
    return usual()(module, (inputs[0].transpose(1, 2).flatten(0, 1),))


def times_output(module: Any, truth: Truth) -> Tensor:
    """Places taken out of the batch again."""
    merged = truth.merged
    return module.out(merged).unflatten(0, (2, 5)).transpose(1, 2)


def one_sequence(module: Any, inputs: Any) -> Truth:
    """Truth of a module without a batch axis."""
    return usual()(module, (inputs[0][None],))


def one_sequence_output(module: Any, truth: Truth) -> Tensor:
    """Merged heads of the only sequence."""
    return module.out(truth.read[0].transpose(0, 1).flatten(1))


STYLES: tuple[Style, ...] = (
    Style(
        name="fold-batch-outer-bmm",
        build=seeded(FoldBatchOuter),
        inputs=lambda: (noise(5, 2, 20),),
        truth=sequence_first,
        output=sequence_first_output,
    ),
    Style(name="fold-heads-outer-chunk-cat", build=seeded(FoldHeadsOuter), truth=usual()),
    Style(name="fold-heads-outer-permute", build=seeded(FoldByPermute), truth=usual()),
    Style(
        name="no-batch-axis",
        build=seeded(NoBatch),
        inputs=lambda: (noise(5, 20),),
        batch=1,
        truth=one_sequence,
        output=one_sequence_output,
    ),
    Style(
        name="no-batch-no-heads-mm",
        build=seeded(NoBatchNoHeads, heads=1),
        inputs=lambda: (noise(5, 20),),
        batch=1,
        heads=1,
        kv_heads=1,
        truth=one_sequence,
        output=one_sequence_output,
    ),
    Style(
        name="no-head-axis",
        build=seeded(NoHeads, heads=1, value_dim=7),
        heads=1,
        kv_heads=1,
        value_dim=7,
        truth=usual(),
    ),
    Style(name="fused-qkv-permuted", build=seeded(FusedPermuted), truth=fused_truth),
    Style(name="fused-qkv-head-by-head", build=seeded(TokenOuterHeads), truth=headwise_truth),
    Style(
        name="tokens-before-heads-matmul",
        build=seeded(FiveAxes),
        truth=usual(),
        note="each token is a batch entry of its own with one query; the keys are broadcast",
    ),
    Style(
        name="video-within-frames",
        build=seeded(Frames),
        inputs=lambda: (noise(2, 4, 5, 20),),
        batch=8,
        truth=frames_truth,
        output=frames_output,
    ),
    Style(
        name="video-across-frames-einsum",
        build=seeded(Times),
        inputs=lambda: (noise(2, 4, 5, 20),),
        batch=10,
        queries=4,
        keys=4,
        truth=times_truth,
        output=times_output,
    ),
)
