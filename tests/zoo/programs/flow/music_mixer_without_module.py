"""Music tagger; the attention block forgot to inherit from nn.Module."""

import torch
import torch.nn.functional as F
from torch import nn


class Mixer:
    def __init__(self, width, heads):
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def __call__(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.proj(y.transpose(1, 2).reshape(b, n, c))


class Tagger(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Conv1d(20, width, 3, padding=1)
        self.places = nn.Parameter(torch.randn(64, width) * 0.1)
        self.mixer = Mixer(width, 4)  # fault: AS903
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 11)

    def forward(self, mel):
        x = self.stem(mel).mT
        x = self.mixer(x + self.places[: x.shape[1]])
        return self.head(self.norm(x).mean(1))


torch.manual_seed(0)
model = Tagger().eval()
inputs = torch.randn(2, 20, 13)
