"""Session recommender written as one module with numbered lists, as translated from TensorFlow."""

import torch
from torch import nn


class Sessions(nn.Module):
    def __init__(self, items=60, hidden=28, heads=2, blocks=3, longest=20):
        super().__init__()
        self.heads, self.blocks = heads, blocks
        self.items, self.times = nn.Embedding(items, hidden), nn.Embedding(longest, hidden)
        self.pre_attention = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(blocks))
        self.pre_dense = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(blocks))
        self.qkv = nn.ModuleList(nn.Linear(hidden, 3 * hidden) for _ in range(blocks))
        self.merge = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(blocks))
        self.dense_in = nn.ModuleList(nn.Linear(hidden, 40) for _ in range(blocks))
        self.dense_out = nn.ModuleList(nn.Linear(40, hidden) for _ in range(blocks))
        self.final = nn.LayerNorm(hidden)

    def attention(self, i, x):
        b, n, d = x.shape
        q, k, v = self.qkv[i](x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        scores = (q @ k.mT / (d // self.heads) ** 0.5).masked_fill(later, -1e9)
        return self.merge[i]((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))

    def forward(self, session):
        x = self.items(session) + self.times(torch.arange(session.shape[1]))
        for i in range(self.blocks):
            normed = self.pre_attention[i](x)
            x = x + self.attention(i, normed)
            normed = self.pre_dense[i](x)
            x = x + self.dense_out[i](self.dense_in[i](normed).relu())
        return self.final(x) @ self.items.weight.T


torch.manual_seed(22)
model = Sessions().eval()
inputs = {"session": torch.randint(0, 60, (3, 12), generator=torch.Generator().manual_seed(22))}
expect = {"causal": True}
