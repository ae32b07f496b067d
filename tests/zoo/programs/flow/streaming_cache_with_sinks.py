"""A decoder for endless streams: the first keys stay as sinks, before the last few."""
import torch
from torch import nn


class WinAttn(nn.Module):
    def __init__(self, d, h, window):
        super().__init__()
        self.h, self.window, self.sinks = h, window, 2
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def kept(self, x):
        if x.shape[2] <= self.sinks + self.window:
            return x
        return torch.cat([x[:, :, : self.sinks], x[:, :, -self.window :]], dim=2)

    def forward(self, x, layer_cache, offset):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        if layer_cache:
            k = torch.cat([layer_cache["k"], k], dim=2)
            v = torch.cat([layer_cache["v"], v], dim=2)
        n = k.shape[2]
        qi = torch.arange(offset, offset + t)[:, None]
        ki = torch.arange(offset + t - n, offset + t)[None, :]
        ki = torch.where(torch.arange(n) < self.sinks, torch.arange(n), ki)
        ok = ki <= qi
        s = (q @ k.mT) * q.shape[-1] ** -0.5
        s = s.masked_fill(~ok, float("-inf"))
        y = s.softmax(-1) @ v
        keep_k = self.kept(k)
        keep_v = self.kept(v)
        return self.o(y.transpose(1, 2).reshape(b, t, d)), {"k": keep_k, "v": keep_v}


class Decoder(nn.Module):
    def __init__(self, vocab=50, d=24, h=2, layers=2, window=4):
        super().__init__()
        self.emb, self.pe = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.layers = nn.ModuleList(WinAttn(d, h, window) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, tokens, cache=None):
        offset = 0 if cache is None else cache["offset"]
        t = tokens.shape[1]
        x = self.emb(tokens) + self.pe(torch.arange(offset, offset + t))
        new = []
        for i, layer in enumerate(self.layers):
            y, c = layer(x, None if cache is None else cache["layers"][i], offset)
            x = x + y
            new.append(c)
        return x @ self.out.weight.T, {"offset": offset + t, "layers": new}


torch.manual_seed(4)
model = Decoder().eval()
inputs = (torch.randint(0, 50, (2, 13)),)
expect = {"causal": True, "cache": "cache"}
