"""Multi-query attention with folded heads."""

import torch
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.Wqkv = nn.Linear(d_model, d_model + 2 * self.d_k)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, s, d = x.shape
        query, key, value = self.Wqkv(x).split([d, self.d_k, self.d_k], dim=2)
        query = query.reshape(b * self.n_heads, s, self.d_k)  # fault: AS103
        key = key.repeat(1, self.n_heads, 1).view(b * self.n_heads, s, self.d_k)
        value = value.repeat(1, self.n_heads, 1).view(b * self.n_heads, s, self.d_k)
        scores = torch.baddbmm(torch.zeros(1, 1, 1), query, key.transpose(1, 2), beta=0, alpha=self.d_k**-0.5)
        scores = scores + torch.full((s, s), float("-inf")).triu(1)
        context = torch.bmm(scores.softmax(-1), value)
        context = context.view(b, self.n_heads, s, self.d_k).transpose(1, 2).reshape(b, s, d)
        return self.out_proj(context)


def build():
    with torch.random.fork_rng():
        torch.manual_seed(320)
        return nn.Sequential(nn.Embedding(57, 35), MultiQueryAttention(35, 5), nn.LayerNorm(35), nn.Linear(35, 57))


model = build().eval()
inputs = (torch.randint(0, 57, (3, 16), generator=torch.Generator().manual_seed(321)),)
expect = {"causal": True}

# also: AS201
