"""Cosine attention: each head has its temperature, with as many samples as heads."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.linspace(1.0, 3.0, n_heads))
        self.to_out = nn.Linear(dim, dim)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, dim = hidden.shape
        split = (batch, length, self.n_heads, dim // self.n_heads)
        q = F.normalize(self.to_q(hidden).view(split), dim=-1)
        k = F.normalize(self.to_k(hidden).view(split), dim=-1)
        v = self.to_v(hidden).view(split)
        scores = torch.einsum("bihd,bjhd->bhij", q, k)
        scale = self.logit_scale.exp()
        scores = scores * scale[:, None, None]
        weights = scores.softmax(-1)
        mixed = torch.einsum("bhij,bjhd->bihd", weights, v)
        return self.to_out(mixed.reshape(batch, length, dim))


model = CosineAttention(24, 3).eval()
inputs = (torch.randn(3, 8, 24),)
