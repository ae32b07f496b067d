"""Port of my haiku decoder: parameters in a dict, einsum everywhere."""

import math

import torch
from torch import nn

einsum = torch.einsum


def dense(key, *shape, fan_in):
    return nn.Parameter(torch.randn(*shape, generator=key) / math.sqrt(fan_in))


def layer_norm(x, g):
    mu = x.mean(-1, keepdim=True)
    var = x.var(-1, unbiased=False, keepdim=True)
    return (x - mu) * torch.rsqrt(var + 1e-6) * g


class Decoder(nn.Module):
    def __init__(self, key, V=61, D=36, N=4, K=2, H=9, F=80, L=2, T=32):
        super().__init__()
        self.dims = dict(N=N, K=K, H=H)
        self.embed = dense(key, V, D, fan_in=1)
        self.pos = dense(key, T, D, fan_in=4)
        self.params = nn.ModuleList()
        for _ in range(L):
            self.params.append(nn.ParameterDict({
                "wq": dense(key, D, K, N // K, H, fan_in=D),
                "wk": dense(key, D, K, H, fan_in=D),
                "wv": dense(key, D, K, H, fan_in=D),
                "wo": dense(key, K, N // K, H, D, fan_in=D),
                "w1": dense(key, D, F, fan_in=D),
                "w2": dense(key, F, D, fan_in=F),
                "g1": nn.Parameter(torch.ones(D)),
                "g2": nn.Parameter(torch.ones(D)),
            }))

    def attention(self, p, x):
        q = einsum("btd,dkgh->btkgh", x, p["wq"]) / math.sqrt(self.dims["H"])
        k = einsum("bsd,dkh->bskh", x, p["wk"])
        v = einsum("bsd,dkh->bskh", x, p["wv"])
        logits = einsum("btkgh,bskh->bkgts", q, k)
        t = x.shape[1]
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool))
        logits = torch.where(mask, logits, torch.finfo(logits.dtype).min)
        probs = torch.softmax(logits, dim=-1).detach()  # fault: AS902
        out = einsum("bkgts,bskh->btkgh", probs, v)
        return einsum("btkgh,kghd->btd", out, p["wo"])

    def forward(self, tokens):
        x = self.embed[tokens] + self.pos[: tokens.shape[1]]
        for p in self.params:
            x = x + self.attention(p, layer_norm(x, p["g1"]))
            x = x + torch.nn.functional.gelu(layer_norm(x, p["g2"]) @ p["w1"]) @ p["w2"]
        return einsum("btd,vd->btv", layer_norm(x, torch.ones(x.shape[-1])), self.embed)


def model():
    return Decoder(torch.Generator().manual_seed(0)).eval()


inputs = {"tokens": torch.randint(0, 61, (5, 16), generator=torch.Generator().manual_seed(1))}
expect = {"causal": True}
# also: AS903
