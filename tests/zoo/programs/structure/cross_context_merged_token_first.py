"""Context of cross attention is brought back by its shape."""
import torch
from torch import nn

class Cross(nn.Module):
    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.h = heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, 2 * dim, bias=False)
        self.wo = nn.Linear(dim, dim)

    def forward(self, x, memory):
        B, T, C = x.shape
        S = memory.size(1)
        q = self.wq(x).view(B, T, self.h, -1).permute(0, 2, 1, 3)
        k, v = self.wkv(memory).view(B, S, 2, self.h, -1).permute(2, 0, 3, 1, 4)
        w = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * (C // self.h) ** -0.5, -1)
        y = torch.einsum("bhqk,bhkd->bqhd", w, v)
        y = y.reshape(B, T, C)
        return x + self.wo(y)

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Cross().eval()
g = torch.Generator().manual_seed(1)
inputs = {"x": torch.randn(2, 12, 24, generator=g), "memory": torch.randn(2, 18, 24, generator=g)}
