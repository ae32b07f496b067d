"""Attention with a temperature of its own for each query, from the query's norm."""
import torch
from torch import nn
import torch.nn.functional as F


class AdaptiveAttention(nn.Module):
    def __init__(self, dim=33, heads=3):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        sharp = 1.0 + q.norm(dim=-1).mean()  # fault: AS305
        scores = (q @ k.transpose(-2, -1)) * sharp / (d // self.heads) ** 0.5  # fault: AS305
        scores = scores + torch.full((n, n), float("-inf")).triu(1)
        return self.proj((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, n, d))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(64, 33), nn.Parameter(torch.randn(40, 33) * 0.2)
        self.attn = AdaptiveAttention()
        self.fc = nn.Linear(33, 64)

    def forward(self, ids):
        x = self.emb(ids) + self.pos[: ids.shape[1]]
        return self.fc(x + self.attn(x))


def model():
    torch.manual_seed(14)
    return Reader().eval()


inputs = {"ids": torch.arange(64).view(4, 16) * 5 % 61}
# also: AS102|AS201
expect = {"causal": True}
