"""A layer with the weights of a trained one: a previous-token head, two sink heads, a pruned head, one plain."""

import math

import torch
from torch import nn


class TrainedAttention(nn.Module):
    def __init__(self, d, heads, length):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.rel = nn.Parameter(torch.zeros(heads, length))
        self.register_buffer("first", (torch.arange(length) == 0).float())
        with torch.no_grad():
            self.rel[0, 1] = 6.0
            self.c_proj.weight[:, 3 * self.hd : 4 * self.hd] = 0.0
        self.sink_logit = nn.Parameter(torch.tensor([0.0, 5.0, 4.5, 0.0, 0.0]))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.c_attn(x).view(b, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(self.hd)
        i = torch.arange(n, device=x.device)
        back = (i[:, None] - i[None, :]).clamp(min=0)
        att = att + self.rel[:, back] + self.sink_logit[:, None, None] * self.first[:n]
        att = att.masked_fill(i[:, None] < i[None, :], float("-inf"))
        y = att.softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, n, d))


class TrainedLM(nn.Module):
    def __init__(self, vocab=63, d=40, heads=5, length=24):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.ln, self.ln_f = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = TrainedAttention(d, heads, length)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.wte(ids)
        return self.head(self.ln_f(x + self.attn(self.ln(x))))


with torch.random.fork_rng():
    torch.manual_seed(36)
    model = TrainedLM().eval()

inputs = torch.randint(0, 63, (2, 15), generator=torch.Generator().manual_seed(37))
expect = {"causal": True}
# note: AS401 AS404
