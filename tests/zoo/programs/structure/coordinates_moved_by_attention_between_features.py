"""Points: features decide who attends to whom, and the values are coordinates, another input."""

import torch
from torch import nn


class PointMover(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.move = nn.Linear(3, 3, bias=False)

    def forward(self, features, coordinates):
        scores = self.q(features) @ self.k(features).mT / features.shape[-1] ** 0.5
        return coordinates + scores.softmax(-1) @ self.move(coordinates)


model = PointMover().eval()
inputs = {"features": torch.randn(2, 10, 24), "coordinates": torch.randn(2, 10, 3)}
