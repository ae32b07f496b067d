"""Grouped-query attention without copies, einsum form."""
import torch
import torch.nn as nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, embed_dim: int = 48, query_heads: int = 6, kv_heads: int = 2):
        super().__init__()
        self.hq, self.hk = query_heads, kv_heads
        self.d = embed_dim // query_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, kv_heads * self.d)
        self.v_proj = nn.Linear(embed_dim, kv_heads * self.d)
        self.norm = nn.LayerNorm(embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        B, N, _ = x.shape
        g = self.hq // self.hk
        q = self.q_proj(x).view(B, N, self.hk, g, self.d).permute(0, 3, 2, 1, 4)
        k = self.k_proj(x).view(B, N, self.hk, self.d).transpose(1, 2)
        v = self.v_proj(x).view(B, N, self.hk, self.d).transpose(1, 2)
        sim = torch.einsum("bghnd,bhsd->bghns", q, k) / self.d**0.5
        att = sim.softmax(-1)
        out = torch.einsum("bghns,bhsd->bghnd", att, v)
        out = out.permute(0, 3, 2, 1, 4).reshape(B, N, -1)
        return self.out_proj(self.norm(out))


torch.manual_seed(0)
model = GroupedQueryAttention().eval()
inputs = torch.randn(2, 9, 48, generator=torch.Generator().manual_seed(0))
