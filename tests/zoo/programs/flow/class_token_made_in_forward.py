"""Patch encoder with a class token."""

import torch
from torch import nn


class PatchEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.pos = nn.Parameter(torch.randn(1, 17, width) * 0.1)
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        x = self.patch(images).flatten(2).mT
        cls = nn.Parameter(torch.zeros(1, 1, x.shape[-1]))  # fault: AS903
        x = torch.cat([cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.layer(x)[:, 0])


torch.manual_seed(0)
model = PatchEncoder().eval()
inputs = torch.randn(2, 3, 16, 16)
