"""Event-sequence classifier with stock PyTorch layers and a validity mask."""

import torch
from torch import nn


class EventClassifier(nn.Module):
    def __init__(self, features=6, dim=20, heads=2, classes=3):
        super().__init__()
        self.project = nn.Linear(features, dim)
        self.time = nn.Parameter(0.1 * torch.randn(1, 24, dim))
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, events, valid):
        """valid: (batch, time), True for a recorded event."""
        h = self.project(events) + self.time[:, : events.size(1)]
        a, _ = self.attention(h, h, h, key_padding_mask=valid, need_weights=False)  # fault: AS205
        h = self.norm(h + a)
        weight = valid.unsqueeze(-1).float()
        return self.head((h * weight).sum(1) / weight.sum(1))


# also: AS202 AS212
with torch.random.fork_rng():
    torch.manual_seed(3)
    model = EventClassifier().eval()


def inputs():
    g = torch.Generator().manual_seed(9)
    valid = torch.arange(10)[None, :] < torch.tensor([9, 4, 7, 6])[:, None]
    return {"events": torch.randn(4, 10, 6, generator=g), "valid": valid}


expect = {"padding": "valid keep"}
