"""Channel attention (XCA) with as many tokens as channels a head."""
import torch
from torch import nn
import torch.nn.functional as F

class XCA(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.h = heads
        self.t = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.h, C // self.h).permute(2, 0, 3, 4, 1)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        a = ((q @ k.transpose(-2, -1)) * self.t).softmax(-1)
        return self.proj((a @ v).permute(0, 3, 1, 2).reshape(B, N, C))

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = XCA().eval()
inputs = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(1))
