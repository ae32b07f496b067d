"""Recommender over item histories, heads normalised to unit length before they are compared."""

import torch
from torch import nn


class HistoryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.sharpness = 8.0

    @staticmethod
    def unit(t):
        return t / t.norm(dim=-1, keepdim=True)  # fault: AS802

    def forward(self, h, real):
        b, t, d = h.shape
        q = self.unit(self.q(h).view(b, t, self.heads, -1)).transpose(1, 2)
        k = self.unit(self.k(h).view(b, t, self.heads, -1)).transpose(1, 2)
        v = self.v(h).view(b, t, self.heads, -1).transpose(1, 2)
        s = self.sharpness * (q @ k.transpose(2, 3))
        s = s.masked_fill(~real[:, None, None, :], -1e9)
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)


class Recommender(nn.Module):
    def __init__(self, items=70, dim=24, heads=2):
        super().__init__()
        self.items = nn.Embedding(items, dim, padding_idx=0)
        self.attn = HistoryAttention(dim, heads)

    def forward(self, history):
        real = history != 0
        h = self.items(history)
        h = h + self.attn(h, real)
        user = (h * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return user @ self.items.weight.t()


def model():
    with torch.random.fork_rng():
        torch.manual_seed(270)
        return Recommender().eval()


def inputs():
    history = torch.randint(1, 70, (4, 9), generator=torch.Generator().manual_seed(271))
    history[1, 5:] = 0
    history[3, 7:] = 0
    return {"history": history}


expect = {"padding": "history pad=0"}

# also: AS202 AS501
