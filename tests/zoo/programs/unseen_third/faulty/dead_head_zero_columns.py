"""Trained checkpoint after our pruning pass, exported as plain module."""
import torch
import torch.nn as nn


class PrunedAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def prune(self, head):
        size = self.out.in_features // self.h
        with torch.no_grad():
            self.out.weight[:, head * size : (head + 1) * size] = 0

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (d // self.h) ** -0.5, -1)
        o = a @ v  # fault: AS401
        return self.out(o.transpose(1, 2).reshape(b, n, d))  # fault: AS401


torch.manual_seed(0)
model = PrunedAttention().eval()
model.prune(2)
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
