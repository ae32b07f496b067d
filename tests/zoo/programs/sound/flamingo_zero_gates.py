"""Gated cross-attention into image features, gates closed at the start of training."""

import torch
from torch import einsum, nn


class GatedCrossAttentionBlock(nn.Module):
    def __init__(self, dim, dim_visual, heads=4, dim_head=10):
        super().__init__()
        self.heads = heads
        self.scale = dim_head**-0.5
        inner = heads * dim_head
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim_visual, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)
        self.attn_gate = nn.Parameter(torch.tensor([0.0]))
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))
        self.ff_gate = nn.Parameter(torch.tensor([0.0]))

    def attend(self, x, media):
        b, n, h = x.shape[0], x.shape[1], self.heads
        q = self.to_q(self.norm(x))
        k, v = self.to_kv(media).chunk(2, dim=-1)
        q, k, v = (t.reshape(b, t.shape[1], h, -1).transpose(1, 2) for t in (q, k, v))
        sim = einsum("... i d, ... j d -> ... i j", q * self.scale, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        out = einsum("... i j, ... j d -> ... i d", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))

    def forward(self, x, media):
        x = self.attend(x, media) * self.attn_gate.tanh() + x
        return self.ff(x) * self.ff_gate.tanh() + x


def build():
    with torch.random.fork_rng():
        torch.manual_seed(66)
        return GatedCrossAttentionBlock(36, 28).eval()


model = build()
_g = torch.Generator().manual_seed(67)
inputs = {"x": torch.randn(2, 9, 36, generator=_g), "media": torch.randn(2, 13, 28, generator=_g)}
