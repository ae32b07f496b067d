"""Picture classifier: patches and a token for the class, torch's own layers."""

import torch
from torch import nn


class Pictures(nn.Module):
    def __init__(self, width=32, classes=5):
        super().__init__()
        self.cut = nn.Conv2d(3, width, 8, 8)
        self.sum = nn.Parameter(torch.randn(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, 17, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, classes)

    def forward(self, pictures):
        x = self.cut(pictures).flatten(2).mT
        x = torch.cat([self.sum.expand(len(x), -1, -1), x], 1) + self.place
        x = self.layers(x)
        return self.head(x.mean(1))


torch.manual_seed(0)
model = Pictures().eval()
inputs = torch.randn(2, 3, 32, 32)
expect = {"causal": False}
