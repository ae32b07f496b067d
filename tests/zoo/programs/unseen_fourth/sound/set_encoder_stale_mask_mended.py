"""Set encoder with a lazily built mask, warmed up once before use."""
import torch
from torch import nn


class SetEncoder(nn.Module):
    def __init__(self, feat=6, dim=32, heads=4):
        super().__init__()
        self.lift = nn.LazyLinear(dim)
        self.att = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, 1))
        self._pad = None

    def _padding(self, elements):
        if elements is not None:
            self._pad = elements.abs().sum(-1).eq(0)
        return self._pad

    def forward(self, elements):
        pad = self._padding(elements)
        z = self.lift(elements)
        y, _ = self.att(z, z, z, key_padding_mask=pad)
        score = self.ff(z + y).squeeze(-1)
        return score.masked_fill(elements.abs().sum(-1).eq(0), 0.0).sum(-1)


def _batch(seed, sizes):
    x = torch.randn(len(sizes), 10, 6, generator=torch.Generator().manual_seed(seed))
    for i, s in enumerate(sizes):
        x[i, s:] = 0
    return x


def model():
    torch.manual_seed(8)
    net = SetEncoder().eval()
    with torch.no_grad():
        net(_batch(0, [4, 10, 7]))
    return net


inputs = (_batch(1, [9, 5, 3]),)
# note: AS501
