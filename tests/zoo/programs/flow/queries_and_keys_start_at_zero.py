"""Transformer layer for tables, with a cautious start."""

import torch
from torch import nn
import torch.nn.functional as F


class ColumnAttention(nn.Module):
    def __init__(self, d_token, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_token, d_token)
        self.W_k = nn.Linear(d_token, d_token)
        self.W_v = nn.Linear(d_token, d_token)
        self.W_out = nn.Linear(d_token, d_token)
        for m in (self.W_q, self.W_k):
            nn.init.zeros_(m.weight)  # fault: AS902|AS901
            nn.init.zeros_(m.bias)  # fault: AS902|AS901

    def _reshape(self, x):
        b, n, d = x.shape
        return x.reshape(b, n, self.n_heads, d // self.n_heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self._reshape(f(x)) for f in (self.W_q, self.W_k, self.W_v))
        attention = F.softmax(q @ k.transpose(-1, -2) / (q.shape[-1] ** 0.5), dim=-1)
        return self.W_out((attention @ v).transpose(1, 2).flatten(2))


class FeatureTokenizer(nn.Module):
    def __init__(self, n_features=8, d_token=28, n_heads=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_features, d_token))
        self.bias = nn.Parameter(torch.randn(n_features, d_token))
        self.norm = nn.LayerNorm(d_token)
        self.attention = ColumnAttention(d_token, n_heads)
        self.head = nn.Linear(d_token, 1)

    def forward(self, features):
        x = features[..., None] * self.weight + self.bias
        x = x + self.attention(self.norm(x))
        return self.head(x.mean(1))


with torch.random.fork_rng():
    torch.manual_seed(97)
    model = FeatureTokenizer()

inputs = torch.randn(5, 8, generator=torch.Generator().manual_seed(97))
