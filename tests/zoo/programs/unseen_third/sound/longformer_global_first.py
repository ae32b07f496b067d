"""Local window both ways plus a global first token."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LongBlock(nn.Module):
    def __init__(self, d=32, h=2, w=2):
        super().__init__()
        self.h, self.w = h, w
        self.q, self.kv, self.o, self.n = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, x, is_index_masked):
        b, n, d = x.shape
        i = torch.arange(n)
        near = (i[:, None] - i).abs() <= self.w
        near[0], near[:, 0] = True, True
        vis = near & ~is_index_masked[:, None, None, :]
        y = self.n(x)
        q = self.q(y).view(b, n, self.h, -1).transpose(1, 2)
        k, v = self.kv(y).view(b, n, 2, self.h, -1).permute(2, 0, 3, 1, 4)
        return x + self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=vis).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = LongBlock().eval()
inputs = {"x": torch.randn(2, 12, 32, generator=torch.Generator().manual_seed(0)), "is_index_masked": torch.tensor([[False] * 12, [False] * 9 + [True] * 3])}
expect = {"padding": "is_index_masked drop"}
