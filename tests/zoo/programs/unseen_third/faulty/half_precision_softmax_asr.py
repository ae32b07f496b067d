"""Bfloat16 inference of a speech encoder: keys are visited in small chunks to save memory (online softmax)."""
import torch
import torch.nn as nn


class LongFormAttention(nn.Module):
    def __init__(self, d=16, h=2, chunk=2):
        super().__init__()
        self.h, self.chunk = h, chunk
        self.w_in, self.w_out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.w_in(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        q = q * (d // self.h) ** -0.5
        top = torch.full((b, self.h, t, 1), -1e4, dtype=q.dtype)
        den = torch.zeros(b, self.h, t, 1, dtype=q.dtype)  # fault: AS304
        num = torch.zeros(b, self.h, t, d // self.h, dtype=q.dtype)  # fault: AS304
        for i in range(0, t, self.chunk):
            s = q @ k[:, :, i : i + self.chunk].transpose(-2, -1)
            new_top = torch.maximum(top, s.amax(-1, keepdim=True))
            fix = torch.exp(top - new_top)
            p = torch.exp(s - new_top)
            den = den * fix + p.sum(-1, keepdim=True)  # fault: AS304
            num = num * fix + p @ v[:, :, i : i + self.chunk]  # fault: AS304
            top = new_top
        y = (num / den).to(x.dtype)
        return self.w_out(y.transpose(1, 2).reshape(b, t, d))


with torch.random.fork_rng():
    torch.manual_seed(15)
    model = LongFormAttention().to(torch.bfloat16).eval()
inputs = torch.randn(1, 700, 16, generator=torch.Generator().manual_seed(15)).to(torch.bfloat16)
