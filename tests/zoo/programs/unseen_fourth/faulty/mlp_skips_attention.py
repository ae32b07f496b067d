"""Vision encoder block with two residual branches."""
import torch
from torch import nn


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm_a, self.norm_m = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.self_attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, input):
        x = self.norm_a(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = x + input
        y = self.norm_m(x)
        y = self.mlp(y)
        return input + y  # fault: AS904


class Vision(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.p = nn.Conv2d(3, dim, 7, 7)
        self.pe = nn.Parameter(torch.randn(1, 16, dim) * .05)
        self.enc = nn.Sequential(*[EncoderBlock(dim, 4) for _ in range(2)])
        self.fc = nn.Linear(dim, 10)

    def forward(self, x):
        return self.fc(self.enc(self.p(x).flatten(2).mT + self.pe).mean(1))


torch.manual_seed(10)
model = Vision().eval()
inputs = torch.randn(2, 3, 28, 28, generator=torch.Generator().manual_seed(10))
