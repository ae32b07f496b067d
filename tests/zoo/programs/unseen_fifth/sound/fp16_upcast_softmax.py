"""Half-precision decoder layer with dtype-aware fill and a float32 softmax."""
import torch
from torch import nn


class HalfDecoderAttention(nn.Module):
    def __init__(self, d=64, h=4, n_max=64):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("tri", torch.ones(n_max, n_max, dtype=torch.bool).tril())

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) * (d // self.h) ** -0.5
        s = s.masked_fill(~self.tri[:t, :t], torch.finfo(s.dtype).min)
        w = nn.functional.softmax(s, dim=-1, dtype=torch.float32).to(v.dtype)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, d))


torch.manual_seed(20)
model = HalfDecoderAttention().half().eval()
inputs = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(20)).half()
expect = {"causal": True}
