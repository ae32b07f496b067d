"""Linear attention with the elu feature map and its normaliser."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LinearAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bnhd,bnhe->bhde", k, v)
        z = 1 / (torch.einsum("bnhd,bhd->bnh", q, k.sum(1)) + 1e-6)
        return self.o(torch.einsum("bnhd,bhde,bnh->bnhe", q, kv, z).reshape(b, n, d))


def model():
    torch.manual_seed(12)
    return LinearAttention().eval()


inputs = torch.randn(2, 21, 32, generator=torch.Generator().manual_seed(12))
# note: AS501
