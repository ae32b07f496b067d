"""Decoder whose first position carries a huge channel, as trained models have it; heads rest there."""

import torch
import torch.nn.functional as F
from torch import nn


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x):
        B, T, C = x.shape
        q = self.q(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (2, self.h, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class MassiveLM(nn.Module):
    def __init__(self, vocab=40, d=48, h=3, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(32, d)
        self.attn = nn.ModuleList(Attn(d, h) for _ in range(depth))
        self.norm = nn.ModuleList(nn.RMSNorm(d) for _ in range(depth + 1))
        self.out = nn.Linear(d, vocab)
        with torch.no_grad():
            self.pos.weight[0, 7] = 400.0
            for a in self.attn:
                # keys turn that channel into a direction which every query carries through its bias
                direction = torch.randn(h, d // h) / (d // h) ** 0.5
                a.q.bias.copy_(1.5 * direction.flatten())
                a.kv.weight[:d, 7] = direction.flatten()
                a.kv.weight[d:, 7] *= 0.05

    def forward(self, ids):
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for attn, norm in zip(self.attn, self.norm):
            x = x + attn(norm(x))
        return self.out(self.norm[-1](x))


with torch.random.fork_rng():
    torch.manual_seed(38)
    model = MassiveLM().eval()

inputs = torch.randint(0, 40, (2, 16), generator=torch.Generator().manual_seed(39))
expect = {"causal": True}
# note: AS404
