"""Encoder whose second sequence goes to a side head alone: nothing is wrong with its attention."""

import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.enc = nn.TransformerEncoderLayer(d, 4, 64, batch_first=True, dropout=0.0)
        self.side = nn.Linear(8, 3)

    def forward(self, x, extras):
        return self.enc(x), self.side(extras)


torch.manual_seed(0)
model = TwoHeads().eval()
_g = torch.Generator().manual_seed(0)
inputs = (torch.randn(2, 12, 32, generator=_g), torch.randn(2, 5, 8, generator=_g))
