"""Encoder layer that computes eagerly when the map is wanted and fused otherwise."""
import torch
import torch.nn.functional as F
from torch import nn


class TwoPath(nn.Module):
    def __init__(self, dim=42, heads=6):
        super().__init__()
        self.heads, self.scale = heads, 0.21
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, need_map=False):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if need_map:
            attn = ((q * self.scale) @ k.mT).softmax(-1)
            shown = ((q * self.scale) @ k.mT).softmax(-2)
            return self.out((attn @ v).transpose(1, 2).flatten(2)), shown  # fault: AS803
        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.out(y.transpose(1, 2).flatten(2)), None


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = TwoPath(), TwoPath()

    def forward(self, x):
        y, _ = self.first(x)
        z, attn = self.second(x + y, need_map=True)
        return x + z, attn


torch.manual_seed(18)
model = Scorer().eval()
inputs = torch.randn(2, 9, 42) * 2
expect = {"scale": 0.21}
