"""Retention (decaying linear attention) as the memory of a control policy."""
import torch
import torch.nn as nn


class Retention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(d, d, bias=False) for _ in range(5))
        self.norm = nn.GroupNorm(heads, d)
        self.register_buffer("gamma", 1 - 2.0 ** (-2.0 - torch.arange(heads).float()))

    def forward(self, x):
        B, T, d = x.shape
        sp = lambda t: t.view(B, T, self.heads, -1).transpose(1, 2)
        q, k, v = sp(self.q(x)), sp(self.k(x)) * (d // self.heads) ** -0.5, sp(self.v(x))
        i = torch.arange(T, device=x.device)
        age = (i[:, None] - i[None]).float()
        D = torch.where(age >= 0, self.gamma[:, None, None] ** age.clamp(min=0), torch.zeros(()))
        y = ((q @ k.mT) * D) @ v
        y = self.norm(y.transpose(1, 2).reshape(B * T, d)).view(B, T, d)
        return self.o(torch.nn.functional.silu(self.g(x)) * y)


class Controller(nn.Module):
    def __init__(self, obs=8, act=3, d=32, heads=4):
        super().__init__()
        self.inp, self.out = nn.Linear(obs, d), nn.Linear(d, act)
        self.ret, self.ln = Retention(d, heads), nn.LayerNorm(d)

    def forward(self, obs):
        x = self.inp(obs)
        x = x + self.ret(self.ln(x))
        return torch.tanh(self.out(x))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(54)
        return Controller().eval()


inputs = {"obs": torch.randn(2, 15, 8, generator=torch.Generator().manual_seed(55))}
expect = {"causal": True}
