"""Perceiver-like reader: learned latents read an array of sensor rows."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, latents, latent_dim, row_dim, heads, qk_channels, v_channels):
        super().__init__()
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(latents, latent_dim) * 0.3)
        self.norm_latents = nn.LayerNorm(latent_dim)
        self.norm_rows = nn.LayerNorm(row_dim)
        self.query = nn.Linear(latent_dim, qk_channels)
        self.key = nn.Linear(row_dim, qk_channels)
        self.value = nn.Linear(row_dim, v_channels)
        self.output = nn.Linear(v_channels, latent_dim)

    def to_heads(self, x):
        return x.unflatten(-1, (self.heads, -1)).movedim(-2, 1)

    def forward(self, rows):
        latents = self.norm_latents(self.latents).expand(rows.shape[0], -1, -1)
        rows = self.norm_rows(rows)
        q = self.to_heads(self.query(latents))
        k = self.to_heads(self.key(rows))
        v = self.to_heads(self.value(rows))
        similarity = torch.matmul(q, k.mT) / q.shape[-1] ** 0.5
        probabilities = similarity.softmax(-1)
        read = torch.matmul(probabilities, v)
        read = read.movedim(1, -2).flatten(-2)
        return latents + self.output(read)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(140)
        return Reader(latents=6, latent_dim=28, row_dim=17, heads=4, qk_channels=32, v_channels=20).eval()


def inputs():
    return {"rows": torch.randn(3, 21, 17, generator=torch.Generator().manual_seed(141))}

# note: AS501
