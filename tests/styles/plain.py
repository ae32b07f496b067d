"""The textbook formula, in the words of different people."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, core, lower, noise, seeded, split, usual
from .truth import Style, Truth, attend


def at_operator(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The one-liner."""
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v


def torch_matmul(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One named step a line."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1))
    scores = torch.div(scores, math.sqrt(d_k))
    p_attn = F.softmax(scores, dim=-1)
    return torch.matmul(p_attn, value)


def method_chain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Methods all the way."""
    return q.matmul(k.mT).mul(q.shape[-1] ** -0.5).softmax(dim=-1).matmul(v)


def multiply_and_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """No matrix product at all: broadcasting and sums."""
    scores = (q[:, :, :, None, :] * k[:, :, None, :, :]).sum(dim=-1) / math.sqrt(8)
    weights = scores.softmax(-1)
    return (weights[..., None] * v[:, :, None]).sum(dim=3)


def multiply_and_sum_then_matmul(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores by broadcasting, context by matmul."""
    scores = torch.sum(q.unsqueeze(-2) * k.unsqueeze(-3), -1)
    return torch.softmax(scores * 8**-0.5, -1) @ v


def transposed_result(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Values first: (vᵀ wᵀ)ᵀ."""
    weights = (q @ k.mT / 8**0.5).softmax(-1)
    return (v.transpose(-1, -2) @ weights.transpose(-1, -2)).transpose(-1, -2)


def keys_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores lie keys by queries, so the softmax runs over dim -2."""
    scores = k @ q.transpose(2, 3) * 8**-0.5
    weights = F.softmax(scores, dim=-2)
    return weights.transpose(2, 3) @ v


def in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every step overwrites the scores."""
    scores = q @ k.mT
    scores /= math.sqrt(8)
    scores -= scores.amax(-1, keepdim=True).detach()
    scores.exp_()
    scores /= scores.sum(-1, keepdim=True)
    return scores @ v


@torch.no_grad()
def out_arguments(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Buffers made once and filled by out=."""
    scores = torch.empty(*q.shape[:3], k.shape[2])
    context = torch.empty_like(q)
    torch.matmul(q, k.transpose(-1, -2), out=scores)
    torch.mul(scores, 8**-0.5, out=scores)
    torch.softmax(scores, -1, out=scores)
    torch.matmul(scores, v, out=context)
    return context


def scaled(q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
    """Meant to be bound by functools.partial."""
    return (scale * q @ k.mT).softmax(-1) @ v


def query_by_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A loop over the queries: five small attentions."""
    rows = []
    for i in range(q.shape[2]):
        row = q[:, :, i : i + 1] @ k.transpose(-1, -2) / math.sqrt(8)
        rows.append(row.softmax(-1) @ v)
    return torch.cat(rows, dim=2)


def fused_all_arguments(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """PyTorch's own function with every argument given."""
    return F.scaled_dot_product_attention(
        query=q, key=k, value=v, attn_mask=keep, dropout_p=0.0, is_causal=False, scale=0.25,
        enable_gqa=True,
    )  # fmt: skip


class OneHead(nn.Module):
    """A single head as in a well-known lecture, three bias-free layers."""

    def __init__(self, width: int, head_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, head_size, bias=False)
        self.query = nn.Linear(width, head_size, bias=False)
        self.value = nn.Linear(width, head_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(batch, tokens, width)``."""
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
        return F.softmax(wei, dim=-1) @ self.value(x)


class ListOfHeads(nn.Module):
    """Heads in a list, one after the other, concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(OneHead(20, 8) for _ in range(3))
        self.out = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Run every head."""
        return self.out(torch.cat([head(x) for head in self.members], dim=-1))


def last_head(module: Any, inputs: Any) -> Truth:
    """Truth of the last head of the list."""
    head = module.members[-1]
    (x,) = inputs
    return attend(*(layer(x)[:, None] for layer in (head.query, head.key, head.value)))


def last_query(module: Any, inputs: Any) -> Truth:
    """Truth of the last query's own attention."""
    (x,) = inputs
    q, k, v = (split(layer(x), 3) for layer in (module.q, module.k, module.v))
    return attend(q[:, :, -1:], k, v)


class ReturnsWeights(Projections):
    """Gives the context and the weights back, as many libraries do."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Attend within x."""
        B, T, _ = x.size()
        q = self.q(x).view(B, T, self.heads, -1).permute(0, 2, 1, 3)
        k = self.k(x).view(B, T, self.heads, -1).permute(0, 2, 3, 1)
        v = self.v(x).view(B, T, self.heads, -1).permute(0, 2, 1, 3)
        att = nn.Softmax(dim=-1)(torch.matmul(q, k) / self.head_dim**0.5)
        y = torch.matmul(att, v).permute(0, 2, 1, 3).contiguous().view(B, T, -1)
        return self.out(y), att


STYLES: tuple[Style, ...] = (
    Style(name="at-operator", build=core(at_operator), truth=usual()),
    Style(name="torch-matmul", build=core(torch_matmul), truth=usual()),
    Style(name="method-chain", build=core(method_chain), truth=usual()),
    Style(name="multiply-and-sum", build=core(multiply_and_sum), truth=usual()),
    Style(
        name="multiply-and-sum-then-matmul",
        build=core(multiply_and_sum_then_matmul),
        truth=usual(),
    ),
    Style(name="transposed-result", build=core(transposed_result), truth=usual()),
    Style(name="keys-first", build=core(keys_first), truth=usual()),
    Style(name="in-place-by-hand", build=core(in_place), truth=usual()),
    Style(name="out-arguments-no-grad", build=core(out_arguments), truth=usual()),
    Style(name="partial", build=core(partial(scaled, scale=0.3)), scale=0.3, truth=usual(0.3)),
    Style(
        name="lambda",
        build=core(lambda q, k, v: (q @ k.mT).mul(8**-0.5).softmax(-1) @ v),
        truth=usual(),
    ),
    Style(
        name="query-by-query",
        build=core(query_by_query),
        calls=5,
        queries=1,
        truth=last_query,
        output=None,
    ),
    Style(
        name="fused-all-arguments",
        build=seeded(Core, fused_all_arguments, heads=4, kv_heads=2),
        inputs=lambda: (noise(2, 5, 20), lower()),
        kind="sdpa",
        heads=4,
        kv_heads=2,
        scale=0.25,
        mask=frozenset({"causal"}),
        visible=0.6,
        truth=usual(0.25, visible=lower()),
    ),
    Style(
        name="list-of-single-heads",
        build=seeded(ListOfHeads),
        calls=3,
        heads=1,
        kv_heads=1,
        truth=last_head,
        output=None,
    ),
    Style(name="returns-weights", build=seeded(ReturnsWeights), truth=usual()),
)
