"""Memory-saving causal attention for long sequences."""

import torch
from torch import nn


class LeanAttention(nn.Module):
    def __init__(self, embed=48, heads=6):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(embed, embed, bias=False)
        self.key = nn.Linear(embed, embed, bias=False)
        self.value = nn.Linear(embed, embed, bias=False)
        self.output = nn.Linear(embed, embed, bias=False)

    def attention_weights(self, q, k):
        t = q.shape[1]
        scores = torch.baddbmm(torch.zeros(1, t, t), q, k.transpose(1, 2), alpha=q.shape[2] ** -0.5)
        scores = scores + torch.triu(torch.full((t, t), float("-inf")), 1)
        return scores.softmax(dim=2)

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = (
            p(x).reshape(b, t, self.heads, -1).transpose(1, 2).reshape(b * self.heads, t, -1)
            for p in (self.query, self.key, self.value)
        )
        out = torch.bmm(self.attention_weights(q, k), v)
        return self.output(out.reshape(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, e))


with torch.random.fork_rng():
    torch.manual_seed(95)
    model = LeanAttention().eval()

inputs = torch.randn(2, 15, 48, generator=torch.Generator().manual_seed(95))
expect = {"causal": True}
