"""Reformer-like shared query/key attention without the self mask."""
import torch
import torch.nn as nn


class SharedQK(nn.Module):
    def __init__(self, d=48, h=3):
        super().__init__()
        self.h = h
        self.to_qk, self.to_v, self.to_out = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, d)
        nn.init.normal_(self.to_qk.weight, std=1.6 * d**-0.5)

    def forward(self, x):
        b, n, d = x.shape
        qk = self.to_qk(x).view(b, n, self.h, -1).transpose(1, 2)
        v = self.to_v(x).view(b, n, self.h, -1).transpose(1, 2)
        dots = qk @ qk.transpose(-1, -2) * (d // self.h) ** -0.5
        attn = dots.softmax(dim=-1)  # fault: AS405
        out = attn @ v
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = SharedQK().eval()
inputs = torch.randn(2, 12, 48, generator=torch.Generator().manual_seed(0))
# also: AS302, AS403, AS901
