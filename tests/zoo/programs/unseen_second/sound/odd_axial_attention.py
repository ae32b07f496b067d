"""Axial attention over an image: rows first, then columns, the other axis folded into the batch."""

import torch
from torch import nn


class Axial(nn.Module):
    def __init__(self, c=24, heads=3, size=(6, 7)):
        super().__init__()
        self.rows = nn.MultiheadAttention(c, heads, batch_first=True)
        self.cols = nn.MultiheadAttention(c, heads, batch_first=True)
        self.pr, self.pc = nn.Parameter(torch.randn(size[0], 1, c) * 0.3), nn.Parameter(torch.randn(1, size[1], c) * 0.3)

    def forward(self, x):
        b, h, w, c = x.shape
        x = x + self.pr + self.pc
        r = x.reshape(b * h, w, c)
        x = x + self.rows(r, r, r, need_weights=False)[0].view(b, h, w, c)
        s = x.transpose(1, 2).reshape(b * w, h, c)
        return x + self.cols(s, s, s, need_weights=False)[0].view(b, w, h, c).transpose(1, 2)


torch.manual_seed(21)
model = Axial().eval()
inputs = torch.randn(4, 6, 7, 24)
