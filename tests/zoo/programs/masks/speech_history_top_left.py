"""Streaming recogniser: (time, batch, width), the last chunk's states come before the new ones."""

import torch
from torch import nn


class Chunk(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, heads)
        self.norm = nn.LayerNorm(width)

    def forward(self, new, old):
        whole = self.norm(torch.cat([old, new]))
        rows, columns = len(new), len(whole)
        hidden = torch.ones(rows, columns, dtype=torch.bool).triu(1)  # fault: AS206
        return new + self.attend(whole[-rows:], whole, whole, attn_mask=hidden)[0]


class Recogniser(nn.Module):
    def __init__(self, bands=10, width=32):
        super().__init__()
        self.bands = nn.Linear(bands, width)
        self.chunk, self.tokens = Chunk(width), nn.Linear(width, 9)

    def forward(self, sound, old):
        return self.tokens(self.chunk(self.bands(sound), old))


torch.manual_seed(1)
model = Recogniser().eval()
inputs = (torch.randn(5, 3, 10), torch.randn(8, 3, 32))
expect = {"causal": True}
