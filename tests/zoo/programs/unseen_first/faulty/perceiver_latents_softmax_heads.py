"""Perceiver resampler: learned latents read a set of image features of varying number."""
import torch
from torch import nn


class CrossRead(nn.Module):
    def __init__(self, dim, ctx_dim, heads=2, dim_head=14):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.norm_latents, self.norm_media = nn.LayerNorm(dim), nn.LayerNorm(ctx_dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_k = nn.Linear(ctx_dim, inner, bias=False)
        self.to_v = nn.Linear(ctx_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, latents, media, media_mask=None):
        latents, media = self.norm_latents(latents), self.norm_media(media)
        q, k, v = self.to_q(latents), self.to_k(media), self.to_v(media)
        q, k, v = map(lambda t: t.reshape(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2), (q, k, v))
        sim = torch.einsum("b h i d, b h j d -> b h i j", q * self.scale, k)
        if media_mask is not None:
            sim = sim.masked_fill(media_mask[:, None, None, :].logical_not(), -torch.finfo(sim.dtype).max)
        out = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(1), v)  # fault: AS101
        return self.to_out(out.transpose(1, 2).flatten(2))


class Resampler(nn.Module):
    def __init__(self, dim=26, ctx_dim=34, latents=5):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, dim))
        self.reads = nn.ModuleList([CrossRead(dim, ctx_dim), CrossRead(dim, ctx_dim)])
        self.ffs = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 50), nn.GELU(), nn.Linear(50, dim)) for _ in range(2)])

    def forward(self, media, media_mask):
        x = self.latents.expand(media.shape[0], -1, -1)
        for read, ff in zip(self.reads, self.ffs):
            x = x + read(x, media, media_mask)
            x = x + ff(x)
        return x


torch.manual_seed(16)
model = Resampler().eval()
inputs = {"media": torch.randn(3, 12, 34), "media_mask": torch.arange(12) < torch.tensor([[12], [7], [10]])}
# also: AS202
expect = {"positions": False}
