"""Transformer-XL attention with memory and relative shift."""
import torch
from torch import nn


class RelAttention(nn.Module):
    def __init__(self, d=44, h=4):
        super().__init__()
        self.h, self.hd = h, d // h
        self.q_net, self.kv_net = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.r_net, self.o_net = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.r_w_bias, self.r_r_bias = nn.Parameter(torch.randn(h, d // h) * 0.1), nn.Parameter(torch.randn(h, d // h) * 0.1)
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, d, 2.0) / d)))
        self.norm = nn.LayerNorm(d)

    @staticmethod
    def _rel_shift(x):
        b, h, q, k = x.shape
        x = torch.cat([x.new_zeros(b, h, q, 1), x], dim=-1)
        return x.view(b, h, k + 1, q)[:, :, 1:].view(b, h, q, k)

    def forward(self, w, mems):
        b, t, d = w.shape
        cat = torch.cat([mems, w], 1)
        s = cat.size(1)
        sin = torch.outer(torch.arange(s - 1, -1, -1.0), self.inv_freq)
        r = self.r_net(torch.cat([sin.sin(), sin.cos()], -1)).view(s, self.h, self.hd)
        q = self.q_net(w).view(b, t, self.h, self.hd)
        k, v = (y.view(b, s, self.h, self.hd) for y in self.kv_net(cat).chunk(2, -1))
        ac = torch.einsum("bihd,bjhd->bhij", q + self.r_w_bias, k)
        bd = self._rel_shift(torch.einsum("bihd,jhd->bhij", q + self.r_r_bias, r))
        score = (ac + bd) * self.hd ** -0.5
        score = score.masked_fill(torch.ones(t, s, device=w.device).triu(1 + s - t).bool(), float("-inf"))
        y = torch.einsum("bhij,bjhd->bihd", score.softmax(-1), v).reshape(b, t, d)
        return self.norm(w + self.o_net(y))


torch.manual_seed(26)
model = RelAttention().eval()
_g = torch.Generator().manual_seed(26)
inputs = {"w": torch.randn(2, 8, 44, generator=_g), "mems": torch.randn(2, 6, 44, generator=_g)}
