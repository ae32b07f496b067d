"""Adaptive-temperature attention for video frames: queries standardised before the dot product."""
import torch
import torch.nn as nn


class AdaptiveAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(d, d) for _ in range(4))
        self.tau = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        q = q / q.norm(dim=-1, keepdim=True).amax(dim=(0, 2), keepdim=True)  # fault: AS305
        k = k / k.norm(dim=-1, keepdim=True)
        s = q @ k.mT * (self.tau * 8.0)  # fault: AS305
        s = s + torch.full((t, t), float("-inf")).triu(1)
        return self.to_out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class FrameModel(nn.Module):
    def __init__(self, f=12, d=32):
        super().__init__()
        self.f, self.pos, self.att, self.out = nn.Linear(f, d), nn.Parameter(torch.randn(30, d) * 0.3), AdaptiveAttention(d), nn.Linear(d, 4)

    def forward(self, frames):
        x = self.f(frames) + self.pos[: frames.size(1)]
        return self.out(x + self.att(x))


# also: AS102 AS201
with torch.random.fork_rng():
    torch.manual_seed(130)
    model = FrameModel().eval()
inputs = torch.randn(3, 15, 12, generator=torch.Generator().manual_seed(130)) * torch.linspace(0.5, 3, 15)[None, :, None]
expect = {"causal": True}
