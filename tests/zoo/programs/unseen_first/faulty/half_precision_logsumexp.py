"""bfloat16 point-cloud encoder: eager attention, softmax in float32."""
import torch
from torch import nn


class HalfAttention(nn.Module):
    def __init__(self, c=48, h=3):
        super().__init__()
        self.h = h
        self.f = nn.Linear(c, 3 * c)
        self.g = nn.Linear(c, c)

    def forward(self, x, keep):
        b, n, c = x.shape
        q, k, v = self.f(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-1, -2)) * (c // self.h) ** -0.5
        s = s.masked_fill(~keep[:, None, None], torch.finfo(s.dtype).min)
        p = (s - s.logsumexp(-1, keepdim=True)).exp()  # fault: AS304
        return self.g((p @ v).transpose(1, 2).reshape(b, n, c))


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(3, 48)
        self.attn = HalfAttention()
        self.norm = nn.LayerNorm(48)
        self.out = nn.Linear(48, 8)

    def forward(self, xyz, keep):
        x = self.lift(xyz)
        return self.out(x + self.attn(self.norm(x), keep))


with torch.random.fork_rng():
    torch.manual_seed(3)
    model = Points()
    model.attn.f.weight.data[:96] *= 4
    model.bfloat16().eval()
    xyz = torch.randn(2, 600, 3).bfloat16()
keep = torch.ones(2, 600, dtype=torch.bool)
keep[1, 400:] = False
inputs = (xyz, keep)
expect = {"positions": False, "padding": "keep keep"}
