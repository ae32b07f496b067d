"""Linear probe on a frozen encoder: only the head learns."""

import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self, vocab=58, dim=32, heads=4, classes=6, places=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(places, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.backbone = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        for part in (self.tok, self.pos, self.backbone):
            part.requires_grad_(False)
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        return self.head(self.backbone(x).mean(dim=1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(153)
        return Probe().train()


inputs = {"ids": torch.randint(0, 58, (4, 11), generator=torch.Generator().manual_seed(153))}
