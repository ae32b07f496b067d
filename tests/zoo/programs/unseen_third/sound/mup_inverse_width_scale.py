"""muP transformer: 1/d attention, zero readout init."""
# note: AS301
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MuConfig:
    vocab_size: int = 75
    d_model: int = 32
    n_head: int = 4
    n_layer: int = 2
    attn_mult: float = 1.0
    output_mult: float = 1.0


class MuAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q, self.k, self.v, self.o = (nn.Linear(c.d_model, c.d_model, bias=False) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        hd = d // self.c.n_head
        q, k, v = (p(x).view(b, n, -1, hd).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.c.attn_mult / hd)
        return self.o(y.transpose(1, 2).flatten(2))


class MuGPT(nn.Module):
    def __init__(self, c=MuConfig()):
        super().__init__()
        self.c = c
        self.wte, self.wpe = nn.Embedding(c.vocab_size, c.d_model), nn.Embedding(64, c.d_model)
        self.at = nn.ModuleList(MuAttention(c) for _ in range(c.n_layer))
        self.ln = nn.ModuleList(nn.LayerNorm(c.d_model, elementwise_affine=False) for _ in range(c.n_layer + 1))
        self.readout = nn.Linear(c.d_model, c.vocab_size, bias=False)
        nn.init.normal_(self.readout.weight, std=c.d_model**-1.0)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe.weight[: idx.shape[1]]
        for a, l in zip(self.at, self.ln):
            x = x + a(l(x))
        return self.readout(self.ln[-1](x)) * self.c.output_mult


torch.manual_seed(0)
model = MuGPT().eval()
