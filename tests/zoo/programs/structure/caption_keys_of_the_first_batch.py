"""Image tokens read a caption; its keys and values are computed once and kept."""

import torch
from torch import nn


class CaptionReader(nn.Module):
    def __init__(self, width=32, text=20):
        super().__init__()
        self.q = nn.Linear(width, width)
        self.k, self.v = nn.Linear(text, width), nn.Linear(text, width)
        self.kept = None

    def forward(self, x, caption):
        if self.kept is None:  # fault: AS107
            self.kept = self.k(caption), self.v(caption)
        k, v = self.kept
        weights = (self.q(x) @ k.mT * x.shape[-1] ** -0.5).softmax(-1)
        return x + weights @ v


class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, 4)
        self.places = nn.Parameter(torch.randn(16, 32) * 0.3)
        self.reader = CaptionReader()
        self.out = nn.Linear(32, 48)

    def forward(self, image, caption):
        x = self.patch(image).flatten(2).mT + self.places
        return self.out(self.reader(x, caption))


torch.manual_seed(0)
model = Painter().eval()
inputs = {"image": torch.randn(2, 3, 16, 16), "caption": torch.randn(2, 7, 20)}
# also: AS501
# note: AS501
