"""Talking heads before and after the softmax, gated values."""
import torch
from torch import nn, einsum


class TalkingHeads(nn.Module):
    def __init__(self, dim=36, heads=6):
        super().__init__()
        self.h = heads
        self.to_qkv, self.to_gate, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.pre, self.post = nn.Parameter(torch.randn(heads, heads) * heads**-0.5), nn.Parameter(torch.randn(heads, heads) * heads**-0.5)
        nn.init.constant_(self.to_gate.bias, 1.0)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = einsum("bhid,bhjd->bhij", q, k) * (d // self.h) ** -0.5
        dots = einsum("bhij,hg->bgij", dots, self.pre)
        attn = dots.softmax(dim=-1)
        attn = einsum("bhij,hg->bgij", attn, self.post)
        out = (attn @ v).transpose(1, 2).reshape(b, n, d)
        return self.to_out(out * self.to_gate(x).sigmoid())


torch.manual_seed(0)
model = TalkingHeads().eval()
inputs = torch.randn(2, 8, 36, generator=torch.Generator().manual_seed(0))
