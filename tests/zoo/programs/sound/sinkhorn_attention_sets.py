"""Sinkformer: attention made doubly stochastic by alternating normalisation over keys and queries."""

import torch
from torch import nn


def sinkhorn(logits, n_iters=6):
    for _ in range(n_iters):
        logits = logits - torch.logsumexp(logits, dim=-2, keepdim=True)
        logits = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    return logits.exp()


class SinkAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        dots = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        out = sinkhorn(dots) @ v
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


class Sinkformer(nn.Module):
    def __init__(self, dim_in=4, dim=28, heads=2, classes=5):
        super().__init__()
        self.embed = nn.Linear(dim_in, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn1, self.attn2 = SinkAttention(dim, heads), SinkAttention(dim, heads)
        self.head = nn.Linear(dim, classes)

    def forward(self, cloud):
        x = self.embed(cloud)
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x))
        return self.head(x.amax(dim=1))


with torch.random.fork_rng():
    torch.manual_seed(104)
    model = Sinkformer().eval()

inputs = torch.randn(2, 15, 4, generator=torch.Generator().manual_seed(105))
expect = {"positions": False}
# note: AS501
