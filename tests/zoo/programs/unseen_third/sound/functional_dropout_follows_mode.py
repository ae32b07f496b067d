"""Transformer encoder block with functional calls everywhere."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def mha(x, p, heads, drop, training):
    b, n, d = x.shape
    q, k, v = F.linear(x, p["wqkv"]).view(b, n, heads, -1).chunk(3, dim=-1)
    a = torch.einsum("bihd,bjhd->bhij", q, k) * (d // heads) ** -0.5
    a = F.softmax(a, dim=-1)
    a = F.dropout(a, drop, training=training)
    o = torch.einsum("bhij,bjhd->bihd", a, v).reshape(b, n, d)
    return F.linear(o, p["wo"])


class Block(nn.Module):
    def __init__(self, d=40, heads=5, drop=0.1):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.params = nn.ParameterDict({
            "wqkv": nn.Parameter(torch.randn(3 * d, d) * d**-0.5),
            "wo": nn.Parameter(torch.randn(d, d) * d**-0.5),
            "w1": nn.Parameter(torch.randn(2 * d, d) * d**-0.5),
            "w2": nn.Parameter(torch.randn(d, 2 * d) * (2 * d) ** -0.5),
        })

    def forward(self, x):
        d = x.shape[-1]
        x = x + mha(F.layer_norm(x, (d,)), self.params, self.heads, self.drop, self.training)
        return x + F.linear(F.gelu(F.linear(F.layer_norm(x, (d,)), self.params["w1"])), self.params["w2"])


torch.manual_seed(7)
model = Block().eval()
inputs = (torch.randn(3, 8, 40, generator=torch.Generator().manual_seed(1)),)
