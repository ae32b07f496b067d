"""Log anomaly detector: local causal attention of the last few lines (fairseq layout)."""

import torch
import torch.nn as nn


class LocalAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, window):
        super().__init__()
        self.num_heads = num_heads
        self.window = window
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        T, B, C = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(T, B * self.num_heads, -1).transpose(0, 1) for t in (q, k, v))
        w = torch.bmm(q * (C // self.num_heads) ** -0.5, k.transpose(1, 2))
        future = torch.full((T, T), float("-inf")).triu_(1)
        past = torch.full((T, T), float("-inf")).tril_(-self.window)
        w = (w + future + past).softmax(dim=-1)
        return self.out_proj(torch.bmm(w, v).transpose(0, 1).reshape(T, B, C))


class LogModel(nn.Module):
    def __init__(self, templates=40, dim=33, heads=3, window=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(templates, dim)
        self.time = nn.Parameter(torch.randn(40, 1, dim) * 0.2)
        self.layers = nn.ModuleList(LocalAttention(dim, heads, window) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.next = nn.Linear(dim, templates)

    def forward(self, lines):
        """lines (time, batch)"""
        x = self.embed(lines) + self.time[: lines.size(0)]
        for layer, norm in zip(self.layers, self.norms):
            x = norm(x + layer(x))
        return self.next(x)


with torch.random.fork_rng():
    torch.manual_seed(52)
    model = LogModel().eval()

inputs = (torch.randint(0, 40, (14, 3), generator=torch.Generator().manual_seed(52)),)
expect = {"causal": True, "window": 4, "batch_axis": 1, "sequence_axis": 0}
