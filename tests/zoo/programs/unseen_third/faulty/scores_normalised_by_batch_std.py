"""Attention with standardised logits instead of 1/sqrt(d)."""
import torch
import torch.nn as nn


class StdAttention(nn.Module):
    def __init__(self, dim=40, heads=4, temp=1.5):
        super().__init__()
        self.heads, self.temp = heads, temp
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        logits = q @ k.transpose(-2, -1)
        logits = self.temp * (logits - logits.mean()) / (logits.std() + 1e-6)  # fault: AS305
        return self.proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = StdAttention().eval()
inputs = torch.randn(3, 8, 40, generator=torch.Generator().manual_seed(0))
