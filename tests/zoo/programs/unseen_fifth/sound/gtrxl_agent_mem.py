"""Agent with a memory of past activations in front of the current segment."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GRUGate(nn.Module):
    def __init__(self, d, bias=1.0):
        super().__init__()
        self.wr, self.ur = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wz, self.uz = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wg, self.ug = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.bg = nn.Parameter(torch.full((d,), bias))

    def forward(self, x, y):
        r = torch.sigmoid(self.wr(y) + self.ur(x))
        z = torch.sigmoid(self.wz(y) + self.uz(x) - self.bg)
        h = torch.tanh(self.wg(y) + self.ug(r * x))
        return (1 - z) * x + z * h


class MemoryLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * d)
        self.o = nn.Linear(d, d)
        self.ln_x, self.ln_m = nn.LayerNorm(d), nn.LayerNorm(d)
        self.gate = GRUGate(d)
        self.age = nn.Parameter(torch.randn(64, d) * 0.02)

    def forward(self, x, mem):
        B, T, d = x.shape
        full = torch.cat([mem, x], 1)
        S = full.size(1)
        full = self.ln_m(full) + self.age[:S].flip(0)
        q = self.q(self.ln_x(x)).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = self.kv(full).chunk(2, -1)
        k = k.view(B, S, self.heads, -1).transpose(1, 2)
        v = v.view(B, S, self.heads, -1).transpose(1, 2)
        seen = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        y = self.o(y.transpose(1, 2).reshape(B, T, d))
        return self.gate(x, F.relu(y))


class Agent(nn.Module):
    def __init__(self, obs_dim=9, d=24, heads=3, depth=2, n_actions=4):
        super().__init__()
        self.enc = nn.Linear(obs_dim, d)
        self.layers = nn.ModuleList([MemoryLayer(d, heads) for _ in range(depth)])
        self.pi = nn.Linear(d, n_actions)
        self.vf = nn.Linear(d, 1)

    def forward(self, obs, memory):
        x = self.enc(obs)
        new_mem = []
        for layer, m in zip(self.layers, memory.unbind(0)):
            new_mem.append(torch.cat([m, x], 1)[:, -m.size(1):].detach())
            x = layer(x, m)
        return self.pi(x), self.vf(x).squeeze(-1), torch.stack(new_mem)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(15)
        return Agent().eval()


g = torch.Generator().manual_seed(16)
inputs = (torch.randn(2, 5, 9, generator=g), torch.randn(2, 2, 8, 24, generator=g))
