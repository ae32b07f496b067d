"""ProbSparse self-attention: only the most active queries attend, all others take the mean of the values."""
import math

import torch
import torch.nn as nn


class ProbAttention(nn.Module):
    def __init__(self, factor=2):
        super().__init__()
        self.factor = factor

    def forward(self, queries, keys, values):
        B, L, H, D = queries.shape
        Q, K, V = queries.transpose(2, 1), keys.transpose(2, 1), values.transpose(2, 1)
        u = min(self.factor * math.ceil(math.log(L)), L)
        full = torch.matmul(Q, K.transpose(-2, -1))
        M = full.max(-1)[0] - full.sum(-1) / L
        top = M.topk(u, sorted=False)[1]
        ctx = V.mean(dim=-2, keepdim=True).expand(B, H, L, D).clone()
        scores = full.gather(2, top[..., None].expand(-1, -1, -1, L)) / math.sqrt(D)
        attn = torch.softmax(scores, dim=-1)
        bi, hi = torch.arange(B)[:, None, None], torch.arange(H)[None, :, None]
        ctx[bi, hi, top, :] = torch.matmul(attn, V).type_as(ctx)
        return ctx.transpose(2, 1).contiguous()


class Layer(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h, self.inner = h, ProbAttention()
        self.q, self.k, self.v, self.o, self.n = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, x):
        B, L, _ = x.shape
        y = self.inner(*(f(x).view(B, L, self.h, -1) for f in (self.q, self.k, self.v)))
        return self.n(x + self.o(y.view(B, L, -1)))


with torch.random.fork_rng():
    torch.manual_seed(18)
    model = Layer().eval()
inputs = torch.randn(2, 23, 32, generator=torch.Generator().manual_seed(18))
