"""Perceiver IO: latents read the bytes, think, and output queries read the latents."""

import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, heads):
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, query_dim, context_dim, heads, dim_head):
        super().__init__()
        self.heads = heads
        self.norm, self.norm_context = nn.LayerNorm(query_dim), nn.LayerNorm(context_dim)
        self.to_q = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, query_dim)

    def forward(self, x, context=None):
        context = self.norm_context(x if context is None else context)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        return self.to_out(attend(self.to_q(self.norm(x)), k, v, self.heads))


class PerceiverIO(nn.Module):
    def __init__(self, dim=26, latents=7, latent_dim=40, queries_dim=18, out=12):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, latent_dim) * 0.5)
        self.cross = Attention(latent_dim, dim, 1, 20)
        self.self_attn = nn.ModuleList(Attention(latent_dim, latent_dim, 4, 10) for _ in range(2))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(latent_dim), nn.Linear(latent_dim, 80), nn.GELU(), nn.Linear(80, latent_dim))
            for _ in range(2)
        )
        self.decoder = Attention(queries_dim, latent_dim, 2, 8)
        self.to_logits = nn.Linear(queries_dim, out)

    def forward(self, data, queries):
        x = self.latents.expand(data.shape[0], -1, -1)
        x = x + self.cross(x, data)
        for attn, ff in zip(self.self_attn, self.ff):
            x = x + attn(x)
            x = x + ff(x)
        return self.to_logits(self.decoder(queries, x))


with torch.random.fork_rng():
    torch.manual_seed(58)
    model = PerceiverIO().eval()

_g = torch.Generator().manual_seed(59)
inputs = {"data": torch.randn(2, 23, 26, generator=_g), "queries": torch.randn(2, 5, 18, generator=_g)}
# note: AS501
