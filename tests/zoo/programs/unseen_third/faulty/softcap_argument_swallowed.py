"""Attention functions behind a registry; soft cap is an option of the layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ATTENTION = {}


def register(name):
    def deco(fn):
        ATTENTION[name] = fn
        return fn

    return deco


@register("sdpa")
def sdpa(q, k, v, *, causal=True, **_):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # fault: AS208|AS306


@register("manual")
def manual(q, k, v, *, causal=True, logit_cap=None, **_):
    s = q @ k.mT * q.size(-1) ** -0.5
    if logit_cap:
        s = logit_cap * torch.tanh(s / logit_cap)
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), float("-inf"))
    return s.softmax(-1) @ v


class Layer(nn.Module):
    def __init__(self, d=36, h=3, logit_cap=1.5, backend="sdpa"):
        super().__init__()
        self.h, self.logit_cap, self.backend = h, logit_cap, backend
        self.qk_norm = nn.RMSNorm(d // h)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = self.qk_norm(q), self.qk_norm(k)
        y = ATTENTION[self.backend](q, k, v, logit_cap=self.logit_cap)  # fault: AS208|AS306
        return self.o(y.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = Layer().eval()
inputs = torch.randn(2, 9, 36, generator=torch.Generator().manual_seed(0))
