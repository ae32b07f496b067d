"""Temporal layer of a video U-Net: every pixel is its own sequence over the frames; output starts at zero."""
import torch
import torch.nn as nn


class TemporalAttention(nn.Module):
    def __init__(self, ch=32, heads=4, max_frames=16):
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(ch), heads
        self.pe = nn.Parameter(torch.randn(1, max_frames, ch) * 0.1)
        self.qkv, self.out = nn.Linear(ch, 3 * ch, bias=False), nn.Linear(ch, ch)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        b, c, f, h, w = x.shape
        y = x.permute(0, 3, 4, 2, 1).reshape(b * h * w, f, c)
        y = self.norm(y) + self.pe[:, :f]
        q, k, v = self.qkv(y).view(-1, f, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = ((q * (c // self.heads) ** -0.5) @ k.mT).softmax(-1)
        y = self.out((a @ v).transpose(1, 2).reshape(-1, f, c))
        return x + y.reshape(b, h, w, f, c).permute(0, 4, 3, 1, 2)


with torch.random.fork_rng():
    torch.manual_seed(6)
    model = TemporalAttention().eval()
inputs = torch.randn(2, 32, 7, 3, 4, generator=torch.Generator().manual_seed(6))
