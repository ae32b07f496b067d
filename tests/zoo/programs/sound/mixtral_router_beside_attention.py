"""Mixtral-like block: sliding attention, and a router whose softmax runs over the experts."""

import torch
import torch.nn.functional as F
from torch import nn


class SparseMoE(nn.Module):
    def __init__(self, dim, n_experts, top_k):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim, bias=False), nn.SiLU(), nn.Linear(2 * dim, dim, bias=False))
            for _ in range(n_experts)
        )

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        routing = F.softmax(self.gate(flat), dim=1, dtype=torch.float)
        weight, chosen = torch.topk(routing, self.top_k, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == i)
            out = out.index_add(0, token, expert(flat[token]) * weight[token, slot, None])
        return out.view_as(x)


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, dim // heads
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.hd, bias=False)

    def forward(self, x, cos, sin):
        b, n, d = x.shape
        q = self.wq(x).view(b, n, self.kv_heads, -1, self.hd)
        k = self.wk(x).view(b, n, self.kv_heads, 1, self.hd)
        v = self.wv(x).view(b, n, self.kv_heads, self.hd)

        def rope(t):
            t1, t2 = t.chunk(2, -1)
            return torch.cat([t1 * cos - t2 * sin, t2 * cos + t1 * sin], -1)

        q, k = rope(q), rope(k).squeeze(3)
        s = torch.einsum("bikgd,bjkd->bkgij", q, k) / self.hd**0.5
        s = s + torch.full((n, n), float("-inf"), device=x.device).triu(1)
        return self.wo(torch.einsum("bkgij,bjkd->bikgd", s.softmax(-1), v).reshape(b, n, d))


class MoELM(nn.Module):
    def __init__(self, vocab=62, dim=40, heads=4, kv_heads=2, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.RMSNorm(dim), Attention(dim, heads, kv_heads), nn.RMSNorm(dim), SparseMoE(dim, 5, 2)])
            for _ in range(layers)
        )
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        self.register_buffer("inv_freq", 1e6 ** (-torch.arange(0, 5) / 5))

    def forward(self, input_ids):
        ang = torch.arange(input_ids.shape[1], device=input_ids.device)[:, None] * self.inv_freq
        cos, sin = ang.cos()[:, None, None], ang.sin()[:, None, None]
        x = self.embed(input_ids)
        for n1, attn, n2, moe in self.layers:
            x = x + attn(n1(x), cos, sin)
            x = x + moe(n2(x))
        return self.head(self.norm(x))


with torch.random.fork_rng():
    torch.manual_seed(82)
    model = MoELM().eval()

inputs = {"input_ids": torch.randint(0, 62, (2, 13), generator=torch.Generator().manual_seed(83))}
expect = {"causal": True}
