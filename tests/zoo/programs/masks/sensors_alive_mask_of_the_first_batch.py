"""Traffic sensors with dead ones masked; the mask becomes a buffer the first time."""

import torch
import torch.nn.functional as F
from torch import nn


class SensorAttention(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, alive):
        if not hasattr(self, "alive_mask"):  # fault: AS211
            self.register_buffer("alive_mask", alive[:, None, None], persistent=False)
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.alive_mask)
        return self.out(y.transpose(1, 2).flatten(2))


class Traffic(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.lift = nn.Linear(2, width)
        self.att = SensorAttention(width)
        self.head = nn.Linear(width, 1)

    def forward(self, readings, alive):
        x = self.lift(readings)
        return self.head(x + self.att(x, alive)).squeeze(-1)


torch.manual_seed(0)
model = Traffic().eval()
_alive = torch.ones(3, 8, dtype=torch.bool)
_alive[0, 5:] = False
_alive[2, 2] = False
inputs = {"readings": torch.randn(3, 8, 2), "alive": _alive}
# also: AS202 AS208
# note: AS501
