"""bfloat16 encoder with stochastic depth on the residual branches (training only)."""
import torch
import torch.nn.functional as F
from torch import nn


class DropPath(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training:
            return x
        keep = torch.rand(x.shape[0], 1, 1, device=x.device) > self.rate
        return x * keep / (1 - self.rate)


class FusedBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.norm, self.qkv, self.o, self.path = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), DropPath(0.3)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.path(self.o(y.transpose(1, 2).flatten(2)))


with torch.random.fork_rng():
    torch.manual_seed(70)
    model = nn.Sequential(nn.Linear(9, 40), FusedBlock(40, 4), FusedBlock(40, 4)).bfloat16().eval()
    inputs = torch.randn(3, 22, 9).bfloat16()
