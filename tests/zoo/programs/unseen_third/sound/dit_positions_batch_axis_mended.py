"""Latent diffusion transformer for audio; sinusoidal time positions from a helper."""
import math

import torch
import torch.nn as nn


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half).float() / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class AudioDiT(nn.Module):
    def __init__(self, ch=6, d=32, h=4, depth=2):
        super().__init__()
        self.d, self.proj_in, self.proj_out, self.time = d, nn.Linear(ch, d), nn.Linear(d, ch), nn.Linear(d, d)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(d, h, 64, 0.0, batch_first=True, norm_first=True) for _ in range(depth)])

    def forward(self, latents, t):
        x = self.proj_in(latents)
        x = x + timestep_embedding(torch.arange(x.shape[1]), self.d)[None]
        x = x + self.time(timestep_embedding(t, self.d)).unsqueeze(1)
        for layer in self.layers:
            x = layer(x)
        return self.proj_out(x)


with torch.random.fork_rng():
    torch.manual_seed(144)
    model = AudioDiT().eval()
inputs = {"latents": torch.randn(3, 14, 6, generator=torch.Generator().manual_seed(144)), "t": torch.tensor([5, 250, 731])}
