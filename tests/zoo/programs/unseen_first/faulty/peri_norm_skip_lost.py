"""Conformer-like block: half-step feed-forward, attention, half-step feed-forward, final norm."""
import torch
import torch.nn.functional as F
from torch import nn


class Attend(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        for m in (self.q, self.k, self.v, self.o):
            nn.init.xavier_uniform_(m.weight)

    def forward(self, x):
        q, k, v = (m(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class ConformerBlock(nn.Module):
    def __init__(self, d=36, h=3):
        super().__init__()
        ff = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 60), nn.SiLU(), nn.Linear(60, d))
        self.ff1, self.ff2, self.norm, self.last = ff(), ff(), nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = Attend(d, h)
        self.time = nn.Parameter(torch.randn(80, d) * 0.1)

    def forward(self, x):
        x = x + self.time[: x.shape[1]]
        x = x + 0.5 * self.ff1(x)
        x = self.attn(self.norm(x))  # fault: AS904
        x = x + 0.5 * self.ff2(x)
        return self.last(x)


torch.manual_seed(47)
model = ConformerBlock().eval()
inputs = torch.randn(2, 23, 36)
