"""Multiple-instance learning: one bag at a time, its instances are rows and are weighed."""
import torch
from torch import nn


class GatedBag(nn.Module):
    def __init__(self, width=16, hidden=12, classes=2):
        super().__init__()
        self.tanh = nn.Sequential(nn.Linear(width, hidden), nn.Tanh())
        self.gate = nn.Sequential(nn.Linear(width, hidden), nn.Sigmoid())
        self.score = nn.Linear(hidden, 1)
        self.classifier = nn.Linear(width, classes)

    def forward(self, bag):
        scores = self.score(self.tanh(bag) * self.gate(bag)).T
        weights = torch.softmax(scores, dim=1)  # note: AS101
        return self.classifier(weights @ bag), weights


def model():
    torch.manual_seed(24)
    return GatedBag().eval()


inputs = torch.randn(13, 16, generator=torch.Generator().manual_seed(25))
