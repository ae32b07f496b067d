"""Memory agent with Transformer-XL relative attention over stored activations."""
import torch
import torch.nn as nn


class RelAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.q, self.kv, self.r, self.o = (nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False),
                                           nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False))
        self.u = nn.Parameter(torch.randn(heads, self.hd) * 0.1)
        self.w = nn.Parameter(torch.randn(heads, self.hd) * 0.1)

    def rel_shift(self, x):
        b, h, i, j = x.shape
        z = torch.zeros(b, h, i, 1, device=x.device, dtype=x.dtype)
        return torch.cat([z, x], -1).view(b, h, j + 1, i)[:, :, 1:].view(b, h, i, j)

    def forward(self, x, mem, pos):
        B, T, d = x.shape
        c = torch.cat([mem, x], 1)
        S = c.size(1)
        q = self.q(x).view(B, T, self.heads, self.hd)
        k, v = (t.view(B, S, self.heads, self.hd) for t in self.kv(c).chunk(2, -1))
        r = self.r(pos).view(S, self.heads, self.hd)
        ac = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        bd = self.rel_shift(torch.einsum("bihd,jhd->bhij", q + self.w, r))
        s = (ac + bd) / self.hd ** 0.5
        hide = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(1 + S - T)
        s = s.masked_fill(hide, float("-inf"))
        return self.o(torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v).reshape(B, T, d))


class XLAgent(nn.Module):
    def __init__(self, obs=7, d=24, heads=3, acts=4):
        super().__init__()
        self.inp = nn.Linear(obs, d)
        self.register_buffer("freq", 10000 ** -(torch.arange(0, d, 2).float() / d))
        self.ln, self.att = nn.LayerNorm(d), RelAttention(d, heads)
        self.pi = nn.Linear(d, acts)

    def forward(self, obs, memory):
        x = self.inp(obs)
        S = memory.size(1) + x.size(1)
        ang = torch.arange(S - 1, -1, -1.0)[:, None] * self.freq
        pos = torch.cat([ang.sin(), ang.cos()], -1)
        return self.pi(x + self.att(self.ln(x), memory, pos))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(16)
        return XLAgent().eval()


g = torch.Generator().manual_seed(17)
inputs = {"obs": torch.randn(2, 6, 7, generator=g), "memory": torch.randn(2, 9, 24, generator=g)}
