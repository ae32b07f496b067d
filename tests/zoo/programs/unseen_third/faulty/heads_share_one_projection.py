"""Per-head modules made with list multiplication."""
import torch
import torch.nn as nn


class HeadAttn(nn.Module):
    def __init__(self, d, hd):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, hd), nn.Linear(d, hd), nn.Linear(d, hd)

    def forward(self, x):
        s = self.q(x) @ self.k(x).transpose(1, 2) / self.q.out_features**0.5
        return s.softmax(dim=-1) @ self.v(x)  # fault: AS402


class MultiHead(nn.Module):
    def __init__(self, d=36, heads=4):
        super().__init__()
        self.heads = nn.ModuleList([HeadAttn(d, d // heads)] * heads)  # fault: AS402
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))  # fault: AS402


torch.manual_seed(0)
model = MultiHead().eval()
inputs = torch.randn(2, 8, 36, generator=torch.Generator().manual_seed(0))
