"""Gated transformer-XL agent: the last segment's hidden states come before the current ones as memory."""
import torch
import torch.nn as nn


class GRUGate(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(2 * d, 2 * d)
        self.h = nn.Linear(2 * d, d)

    def forward(self, x, y):
        r, z = torch.sigmoid(self.w(torch.cat([x, y], -1))).chunk(2, -1)
        z = z * 0.5
        return (1 - z) * x + z * torch.tanh(self.h(torch.cat([r * x, y], -1)))


class MemoryAttention(nn.Module):
    def __init__(self, d_inner=28, n_heads=4):
        super().__init__()
        self.nh, self.dh = n_heads, d_inner // n_heads
        self.linear_kv = nn.Linear(d_inner, 2 * d_inner, bias=False)
        self.linear_q = nn.Linear(d_inner, d_inner, bias=False)
        self.lout = nn.Linear(d_inner, d_inner, bias=False)
        self.dist = nn.Embedding(128, n_heads)

    def forward(self, input_, memory):
        cur, bs = input_.shape[:2]
        full = torch.cat([memory, input_], dim=0)
        k, v = torch.chunk(self.linear_kv(full), 2, dim=-1)
        q = self.linear_q(input_).view(cur, bs, self.nh, self.dh)
        k = k.view(full.size(0), bs, self.nh, self.dh)
        v = v.view(full.size(0), bs, self.nh, self.dh)
        rel = (torch.arange(cur)[:, None] + memory.size(0) - torch.arange(full.size(0))[None]).clamp(min=0)
        s = torch.einsum("ibhd,jbhd->ijbh", q, k) + self.dist(rel).unsqueeze(2)
        s = s * self.dh**-0.5
        dead = torch.triu(torch.ones(cur, full.size(0)), diagonal=1 + memory.size(0)).bool()[..., None, None]
        s = s.masked_fill(dead, -float("inf"))
        a = torch.softmax(s, dim=1)
        ctx = torch.einsum("ijbh,jbhd->ibhd", a, v)
        return self.lout(ctx.reshape(cur, bs, -1))


class Agent(nn.Module):
    def __init__(self, obs=9, d=28, n_act=4):
        super().__init__()
        self.enc = nn.Linear(obs, d)
        self.norm = nn.LayerNorm(d)
        self.attn = MemoryAttention(d)
        self.gate = GRUGate(d)
        self.pi = nn.Linear(d, n_act)

    def forward(self, obs, memory):
        x = self.enc(obs)
        y = self.attn(self.norm(x), self.norm(memory))
        return self.pi(self.gate(x, torch.relu(y)))


with torch.random.fork_rng():
    torch.manual_seed(77)
    model = Agent().eval()
_g = torch.Generator().manual_seed(77)
inputs = (torch.randn(6, 3, 9, generator=_g), torch.randn(10, 3, 28, generator=_g))
