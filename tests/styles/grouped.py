"""Fewer key and value heads than query heads, and how they meet."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, core, lower, noise, seeded, split, usual
from .truth import ROOT, Style, Truth, attend

GROUPED = {"heads": 4, "kv_heads": 2}
SHARED = {"heads": 3, "kv_heads": 1}


def repeat_interleave(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every key/value head repeated for its neighbours."""
    k, v = (torch.repeat_interleave(t, q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def repeat_kv(hidden_states: Tensor, n_rep: int) -> Tensor:
    """The same by expand and reshape."""
    batch, kv_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, kv_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, kv_heads * n_rep, slen, head_dim)


def expand_reshape(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Repeated by expand and reshape, causal, softmax in float32."""
    key_states, value_states = repeat_kv(k, 2), repeat_kv(v, 2)
    attn_weights = torch.matmul(q, key_states.transpose(2, 3)) * 8**-0.5
    causal_mask = torch.full((5, 5), torch.finfo(q.dtype).min).triu(1)[None, None]
    attn_weights = attn_weights + causal_mask
    attn_weights = F.softmax(attn_weights, dim=-1, dtype=torch.float32).to(q.dtype)
    attn_weights = F.dropout(attn_weights, p=0.0, training=False)
    return torch.matmul(attn_weights, value_states)


def grouped_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Groups as an axis, nothing repeated."""
    q = q.unflatten(1, (k.shape[1], -1))
    scores = torch.einsum("bhgqd,bhkd->bhgqk", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("bhgqk,bhkd->bhgqd", scores.softmax(-1), v).flatten(1, 2)


def grouped_broadcast(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Groups as an axis, keys broadcast over it by matmul."""
    q = q.reshape(2, 2, 2, 5, 8)
    weights = torch.softmax(q @ k.unsqueeze(2).transpose(-1, -2) * 8**-0.5, dim=-1)
    return (weights @ v.unsqueeze(2)).reshape(2, 4, 5, 8)


def groups_as_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The heads of a group become further queries of one head."""
    b, h, n, d = q.shape
    q = q.reshape(b, 2, h // 2 * n, d)
    weights = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / d**0.5, dim=-1)
    return torch.matmul(weights, v).view(b, h, n, d)


def one_head_broadcast(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A key head of size one broadcasts by itself."""
    return torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, -1) @ v


def one_head_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The shared head has no axis at all."""
    k, v = k.squeeze(1), v.squeeze(1)
    sim = torch.einsum("b h i d, b j d -> b h i j", q * 8**-0.5, k)
    return torch.einsum("b h i j, b j d -> b h i d", sim.softmax(dim=-1), v)


def indexed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A table says which key head serves which query head."""
    table = torch.tensor([0, 0, 1, 1])
    return (q @ k[:, table].mT / 8**0.5).softmax(-1) @ v[:, table]


def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch.repeat: heads 0, 1, 0, 1 instead of 0, 0, 1, 1."""
    k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)
    return (q @ k.mT / 8**0.5).softmax(-1) @ v


def tiled_truth(m: Any, inputs: Any) -> Truth:
    """Query heads meet the two key heads in turn."""
    return usual(tiled=True)(m, inputs)


class Latent(nn.Module):
    """Keys and values from a narrow latent; a part of the key is shared by all heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(20, 3 * 8, bias=False)
        self.kv_a = nn.Linear(20, 7 + 2, bias=False)
        self.kv_b = nn.Linear(7, 3 * (6 + 4), bias=False)
        self.norm = nn.RMSNorm(7)
        self.out = nn.Linear(12, 20)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (b, h, n, 8), latent (b, n, 7), shared key (b, n, 2)."""
        latent, shared = self.kv_a(x).split([7, 2], dim=-1)
        return self.q_proj(x).view(2, 5, 3, 8).transpose(1, 2), self.norm(latent), shared

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x, values of width 4, causal."""
        q, latent, shared = self.parts(x)
        kv = self.kv_b(latent).view(2, 5, 3, 10).transpose(1, 2)
        k_nope, v = torch.split(kv, [6, 4], dim=-1)
        k = q.new_empty(2, 3, 5, 8)
        k[..., :6] = k_nope
        k[..., 6:] = shared[:, None]
        weights = torch.matmul(q, k.transpose(2, 3)) * 8**-0.5
        weights = weights.masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf")).softmax(-1)
        context = torch.matmul(weights, v).transpose(1, 2).contiguous()
        return self.out(context.reshape(2, 5, 12))


class Absorbed(Latent):
    """The same numbers with the up-projections moved to queries and context: two products."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x over the latent itself."""
        q, latent, shared = self.parts(x)
        w = self.kv_b.weight.view(3, 10, 7)
        q_latent = torch.einsum("bhqd,hdc->bhqc", q[..., :6], w[:, :6])
        scores = torch.einsum("bhqc,bkc->bhqk", q_latent, latent)
        scores = scores + torch.einsum("bhqr,bkr->bhqk", q[..., 6:], shared)
        scores = scores * 8**-0.5 + torch.full((5, 5), float("-inf")).triu_(1)
        context = torch.einsum("bhqk,bkc->bhqc", scores.softmax(dim=-1), latent)
        context = torch.einsum("bhqc,hdc->bqhd", context, w[:, 6:])
        return self.out(context.flatten(2))


def latent_truth(m: Any, inputs: Any) -> Truth:
    """Keys written out in full."""
    q, latent, shared = m.parts(inputs[0])
    k, v = m.kv_b(latent).view(2, 5, 3, 10).transpose(1, 2).split([6, 4], dim=-1)
    k = torch.cat((k, shared[:, None].expand(2, 3, 5, 2)), dim=-1)
    return attend(q, k, v, visible=lower())


def absorbed_truth(m: Any, inputs: Any) -> Truth:
    """One key/value head, the latent; the shared key's product is a bias."""
    q, latent, shared = m.parts(inputs[0])
    q_latent = q[..., :6] @ m.kv_b.weight.view(3, 10, 7)[:, :6]
    bias = q[..., 6:] @ shared[:, None].mT * ROOT
    return attend(q_latent, latent[:, None], latent[:, None], bias=bias, visible=lower())


def absorbed_output(m: Any, truth: Truth) -> Tensor:
    """Values are made from the context."""
    context = truth.read @ m.kv_b.weight.view(3, 10, 7)[:, 6:].mT
    return m.out(context.transpose(1, 2).flatten(2))


class SharedHead(Projections):
    """Three query heads over one key head, tokens before heads, keys longer than queries."""

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Attend from x to memory."""
        q = self.q(x).unflatten(-1, (3, 8))
        k, v = self.k(memory), self.v(memory)
        logits = torch.einsum("bqhd,bkd->bhqk", q, k) * 8**-0.5
        return self.out(torch.einsum("bhqk,bkv->bqhv", logits.softmax(-1), v).flatten(2))


def shared_truth(m: Any, inputs: Any) -> Truth:
    """One key head with an axis."""
    x, memory = inputs
    return attend(split(m.q(x), 3), m.k(memory)[:, None], m.v(memory)[:, None])


def grouped(name: str, function: Any, **facts: Any) -> Style:
    """Four query heads over two key/value heads."""
    facts = {"truth": usual(), **GROUPED, **facts}
    return Style(name=name, build=core(function, **GROUPED), **facts)


STYLES: tuple[Style, ...] = (
    grouped("grouped-repeat-interleave", repeat_interleave),
    grouped(
        "grouped-expand-reshape", expand_reshape, mask=frozenset({"causal"}), visible=0.6,
        truth=usual(visible=lower()),
    ),
    grouped("grouped-einsum", grouped_einsum),
    grouped("grouped-broadcast", grouped_broadcast),
    grouped("grouped-as-queries", groups_as_queries),
    grouped("grouped-indexed", indexed),
    grouped(
        "grouped-tiled", tiled, expansion="repeat", truth=tiled_truth,
        note="two key heads tiled 0, 1, 0, 1: no grouping of neighbours says this",
    ),
    Style(
        name="shared-head-broadcast", build=core(one_head_broadcast, **SHARED), kv_heads=1,
        truth=usual(),
    ),
    Style(
        name="shared-head-einsum", build=core(one_head_einsum, **SHARED), kv_heads=1,
        truth=usual(),
    ),
    Style(
        name="shared-head-cross", build=seeded(SharedHead, 3, kv_heads=1, value_dim=6),
        inputs=lambda: (noise(2, 5, 20), noise(2, 7, 20, seed=3)), kv_heads=1, keys=7,
        value_dim=6, truth=shared_truth,
    ),
    Style(
        name="latent-keys-shared-part", build=seeded(Latent), value_dim=4,
        mask=frozenset({"causal"}), visible=0.6, truth=latent_truth,
    ),
    Style(
        name="latent-absorbed", build=seeded(Absorbed), kv_heads=1, head_dim=7, value_dim=7,
        bias=True, mask=frozenset({"causal"}), visible=0.6, truth=absorbed_truth,
        output=absorbed_output,
        note="the scores are the sum of two products; the second counts as a bias",
    ),
)  # fmt: skip
