"""Cosine attention with a learned temperature per head, restoration style."""

import torch
from torch import nn
import torch.nn.functional as F


class CosineAttention(nn.Module):
    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.full((num_heads, 1, 1), 8.0))  # fault: AS903
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.project_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.num_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * 8.0  # fault: AS903
        out = attn.softmax(dim=-1) @ v
        return x + self.project_out(out.transpose(1, 2).reshape(b, n, c))


with torch.random.fork_rng():
    torch.manual_seed(98)
    model = CosineAttention().eval()

inputs = torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(98))
# also: AS501
