"""Offline RL: return, state and action tokens interleaved under a causal mask."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DT(nn.Module):
    def __init__(self, obs=6, act=2, d=32, h=2, n=2):
        super().__init__()
        self.h = h
        self.r, self.s, self.a, self.t = nn.Linear(1, d), nn.Linear(obs, d), nn.Linear(act, d), nn.Embedding(100, d)
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.w = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(n))
        self.o = nn.ModuleList(nn.Linear(d, d) for _ in range(n))
        self.out = nn.Linear(d, act)

    def forward(self, returns, states, actions, timesteps):
        e = self.t(timesteps)
        x = torch.stack([self.r(returns) + e, self.s(states) + e, self.a(actions) + e], 2).flatten(1, 2)
        for ln, w, o in zip(self.ln, self.w, self.o):
            q, k, v = (z.unflatten(-1, (self.h, -1)).transpose(1, 2) for z in w(ln(x)).chunk(3, -1))
            x = x + o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return self.out(x[:, 1::3]).tanh()


torch.manual_seed(8)
model = DT().eval()
_g = torch.Generator().manual_seed(8)
inputs = {"returns": torch.randn(2, 7, 1, generator=_g), "states": torch.randn(2, 7, 6, generator=_g), "actions": torch.randn(2, 7, 2, generator=_g), "timesteps": torch.arange(7).expand(2, -1) + 4}
