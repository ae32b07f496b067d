"""Autoregressive pixel model, single-file script with functional layers."""

import sys

import torch
import torch.nn.functional as F

WIDTH, HEADS, LEVELS, LENGTH = 20, 2, 16, 30
MIN = sys.float_info.min


class PixelModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        shape = {"emb": (LEVELS, WIDTH), "pos": (LENGTH, WIDTH), "wo": (WIDTH, WIDTH), "head": (LEVELS, WIDTH)}
        shape |= {"wq": (WIDTH, WIDTH), "wk": (WIDTH, WIDTH), "wv": (WIDTH, WIDTH)}
        self.p = torch.nn.ParameterDict(
            {n: torch.nn.Parameter(torch.randn(s) * WIDTH**-0.5) for n, s in shape.items()}
        )

    def forward(self, pixels):
        b, n = pixels.shape
        x = F.embedding(pixels, self.p["emb"]) + self.p["pos"][:n]
        h = F.layer_norm(x, (WIDTH,))
        heads = lambda w: F.linear(h, w).view(b, n, HEADS, WIDTH // HEADS).transpose(1, 2)
        q, k, v = heads(self.p["wq"]), heads(self.p["wk"]), heads(self.p["wv"])
        att = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        future = torch.triu(torch.ones(n, n), 1).bool()
        att = att.masked_fill(future, MIN)  # fault: AS207|AS201
        y = F.softmax(att, -1) @ v
        x = x + F.linear(y.transpose(1, 2).reshape(b, n, WIDTH), self.p["wo"])
        return F.linear(F.layer_norm(x, (WIDTH,)), self.p["head"])


with torch.random.fork_rng():
    torch.manual_seed(43)
    model = PixelModel()

inputs = (torch.randint(0, LEVELS, (4, 18), generator=torch.Generator().manual_seed(43)),)
expect = {"causal": True}
