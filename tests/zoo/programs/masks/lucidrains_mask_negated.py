"""Perceiver-style resampler: latents attend to frames of variable number."""

import torch
from torch import nn, einsum


def max_neg_value(tensor):
    return -torch.finfo(tensor.dtype).max


class PerceiverAttention(nn.Module):
    def __init__(self, *, dim, dim_head=10, heads=4):
        super().__init__()
        self.scale, self.heads = dim_head**-0.5, heads
        inner = dim_head * heads
        self.norm_media, self.norm_latents = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x, latents, mask=None):
        x, latents = self.norm_media(x), self.norm_latents(latents)
        b, h = x.shape[0], self.heads
        q, k, v = (self.to_q(latents), *self.to_kv(x).chunk(2, dim=-1))
        q, k, v = (t.reshape(b, t.shape[1], h, -1).transpose(1, 2) for t in (q, k, v))
        sim = einsum("... i d, ... j d -> ... i j", q * self.scale, k)
        if mask is not None:
            sim.masked_fill_(~mask[:, None, None, :], max_neg_value(sim))
        attn = (sim - sim.amax(dim=-1, keepdim=True).detach()).softmax(dim=-1)
        out = einsum("... i j, ... j d -> ... i d", attn, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class Resampler(nn.Module):
    def __init__(self, dim=26, depth=2, num_latents=5):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        self.layers = nn.ModuleList(PerceiverAttention(dim=dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, frames, mask):
        """mask: True where there is a frame."""
        latents = self.latents.expand(frames.shape[0], -1, -1)
        for attn in self.layers:
            latents = latents + attn(frames, latents, mask)
        return self.norm(latents)


# note: AS501
with torch.random.fork_rng():
    torch.manual_seed(22)
    model = Resampler().eval()

inputs = {
    "frames": torch.randn(3, 12, 26, generator=torch.Generator().manual_seed(22)),
    "mask": torch.arange(12)[None, :] < torch.tensor([10, 4, 7])[:, None],
}
expect = {"padding": "mask keep"}
