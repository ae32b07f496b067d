"""Cosine-similarity attention with a learned temperature and query/key normalisation."""
import torch
import torch.nn.functional as F
from torch import nn


class CosineAttention(nn.Module):
    def __init__(self, dim=36, heads=4):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), 10.0))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        dots = q @ k.transpose(-1, -2)  # fault: AS903
        out = dots.softmax(dim=-1) @ v
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


def model():
    torch.manual_seed(17)
    return CosineAttention().eval()


inputs = torch.randn(3, 15, 36, generator=torch.Generator().manual_seed(2))
