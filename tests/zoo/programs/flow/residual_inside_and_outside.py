"""Speech encoder layer: the attention module carries dropout and skip connection."""

import math

import torch
from torch import nn


class ResidualAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(size)
        self.linear_q, self.linear_k, self.linear_v = (nn.Linear(size, size) for _ in range(3))
        self.linear_out = nn.Linear(size, size)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        n, t, size = x.shape
        h = self.norm(x)
        q, k, v = (
            f(h).view(n, t, self.heads, size // self.heads).transpose(1, 2)
            for f in (self.linear_q, self.linear_k, self.linear_v)
        )
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(size // self.heads)
        context = torch.matmul(torch.softmax(scores, dim=-1), v)
        context = context.transpose(1, 2).contiguous().view(n, t, size)
        return x + self.dropout(self.linear_out(context))  # fault: AS904


class EncoderLayer(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.attention = ResidualAttention(size, heads)
        self.norm = nn.LayerNorm(size)
        self.ff = nn.Sequential(nn.Linear(size, 70), nn.SiLU(), nn.Linear(70, size))

    def forward(self, x):
        x = x + self.attention(x)  # fault: AS904
        return x + self.ff(self.norm(x))


class SpeechEncoder(nn.Module):
    def __init__(self, mels=20, size=36, heads=6, depth=2, frames=100):
        super().__init__()
        self.subsample = nn.Conv1d(mels, size, 3, stride=2, padding=1)
        self.place = nn.Parameter(torch.randn(frames, size) * 0.2)
        self.layers = nn.ModuleList(EncoderLayer(size, heads) for _ in range(depth))

    def forward(self, features):
        x = self.subsample(features.mT).mT
        x = x + self.place[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return x


with torch.random.fork_rng():
    torch.manual_seed(104)
    model = SpeechEncoder().eval()

inputs = torch.randn(2, 31, 20, generator=torch.Generator().manual_seed(104))
