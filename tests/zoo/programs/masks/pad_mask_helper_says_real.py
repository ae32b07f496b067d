"""Sensors with gaps at the end."""

import torch
from torch import nn
from torch.nn import functional as F

def make_pad_mask(lengths, n):
    return torch.arange(n)[None] < lengths[:, None]  # fault: AS205


class Sensors(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.front, self.place = nn.Linear(5, width), nn.Parameter(torch.randn(30, width) * 0.1)
        self.mha, self.norm, self.out = nn.MultiheadAttention(width, 4, batch_first=True), nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x, lengths):
        pad_mask = make_pad_mask(lengths, x.shape[1])
        h = self.front(x) + self.place[: x.shape[1]]
        h = self.norm(h + self.mha(h, h, h, key_padding_mask=pad_mask, need_weights=False)[0])
        return self.out(h)


torch.manual_seed(82)
model = Sensors().eval()
inputs = {"x": torch.randn(3, 8, 5), "lengths": torch.tensor([8, 5, 6])}
expect = {"padding": "lengths lengths"}
# also: AS202 AS203 AS212
