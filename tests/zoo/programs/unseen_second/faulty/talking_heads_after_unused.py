"""Talking-heads attention: heads are mixed before and after the softmax."""

import torch
from torch import nn, einsum


class TalkingHeads(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)
        self.mix_pre = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.mix_post = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))  # fault: AS903
        self.pos = nn.Parameter(torch.randn(20, dim) * 0.3)

    def forward(self, x):
        b, n, d = x.shape
        x = x + self.pos[:n]
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        dots = einsum("b h i j, h g -> b g i j", dots, self.mix_pre)
        attn = dots.softmax(dim=-1)  # fault: AS903
        return self.to_out(einsum("b h i j, b h j d -> b h i d", attn, v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(23)
model = TalkingHeads().eval()
inputs = torch.randn(3, 13, 32)
# also: AS902
