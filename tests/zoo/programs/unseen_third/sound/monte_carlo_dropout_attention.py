"""Uncertainty by MC dropout: attention dropout stays on at prediction time."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MCAttention(nn.Module):
    def __init__(self, d=32, h=4, p=0.1):
        super().__init__()
        self.h, self.p = h, p
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        return self.o(F.scaled_dot_product_attention(q, k, v, dropout_p=self.p).transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = MCAttention().eval()
inputs = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
expect = {"dropout": "on in eval"}
