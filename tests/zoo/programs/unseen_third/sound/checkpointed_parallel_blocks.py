"""PaLM-like parallel block with gradient checkpointing, MQA and SwiGLU."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class ParallelBlock(nn.Module):
    def __init__(self, dim, dim_head, heads, ff_mult=2):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim)
        self.splits = (heads * dim_head, dim_head, dim_head, ff_mult * dim * 2)
        self.fused = nn.Linear(dim, sum(self.splits), bias=False)
        self.attn_out, self.ff_out = nn.Linear(heads * dim_head, dim, bias=False), nn.Linear(ff_mult * dim, dim, bias=False)

    def forward(self, x):
        q, k, v, ff = self.fused(self.norm(x)).split(self.splits, dim=-1)
        q = q.unflatten(-1, (self.heads, -1)).transpose(1, 2) * k.shape[-1] ** -0.5
        sim = torch.einsum("b h i d, b j d -> b h i j", q, k)
        n = x.shape[1]
        sim = sim.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.finfo(sim.dtype).max)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        out = torch.einsum("b h i j, b j d -> b h i d", sim.softmax(-1), v).transpose(1, 2).flatten(2)
        a, g = ff.chunk(2, -1)
        return x + self.attn_out(out) + self.ff_out(F.silu(g) * a)


class PaLM(nn.Module):
    def __init__(self, num_tokens=71, dim=36, depth=2):
        super().__init__()
        self.emb, self.pos = nn.Embedding(num_tokens, dim), nn.Embedding(64, dim)
        self.blocks = nn.ModuleList(ParallelBlock(dim, 9, 4) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        x = self.emb(tokens) + self.pos.weight[: tokens.shape[1]]
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=False) if self.training else b(x)
        return self.norm(x) @ self.emb.weight.t()


torch.manual_seed(0)
model = PaLM().train()
