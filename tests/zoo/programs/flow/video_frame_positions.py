"""Joint space-time attention for short clips: one table for frames, one for patches."""

import torch
from torch import nn


class ClipEncoder(nn.Module):
    def __init__(self, frames=8, patches=16, in_dim=12, dim=40, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(in_dim, dim)
        self.space = nn.Parameter(torch.randn(1, 1, patches, dim) * 0.3)
        self.time = nn.Parameter(torch.randn(1, frames, 1, dim) * 0.3)
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, clip):
        b, f, p, _ = clip.shape
        x = self.embed(clip)
        x = x + self.space[:, :, :p]
        x = x + self.time[:, :f]
        x = x.flatten(1, 2)
        q, k, v = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.reshape(b, f * p, self.heads, -1).permute(0, 2, 1, 3) for t in (q, k, v))
        dots = torch.einsum("b h i d, b h j d -> b h i j", q, k) * q.shape[-1] ** -0.5
        out = torch.einsum("b h i j, b h j d -> b h i d", dots.softmax(dim=-1), v)
        x = x + self.to_out(out.permute(0, 2, 1, 3).flatten(2))
        return x.mean(dim=1)


with torch.random.fork_rng():
    torch.manual_seed(14)
    model = ClipEncoder().eval()

inputs = torch.randn(2, 5, 7, 12, generator=torch.Generator().manual_seed(14))
# note: AS501
