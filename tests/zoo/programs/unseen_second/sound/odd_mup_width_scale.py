"""muP transformer layer: scores divided by the head width itself."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MuAttention(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads, self.d = heads, width // heads
        self.in_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = self.in_proj(x).view(n, t, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0 / self.d)
        return self.out_proj(y.transpose(1, 2).reshape(n, t, w))


torch.manual_seed(2)
model = MuAttention().eval()
inputs = torch.randn(2, 15, 64)
expect = {"causal": True, "scale": 1 / 16}
# note: AS501
