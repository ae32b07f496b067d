"""Attentive neural process with Laplace attention from context to target points."""
import torch
import torch.nn as nn


class LaplaceAttention(nn.Module):
    def __init__(self, x_dim, d, scale=0.5):
        super().__init__()
        self.scale = scale
        self.fq = nn.Linear(x_dim, d)

    def forward(self, xq, xk, v):
        q, k = self.fq(xq), self.fq(xk)
        dist = -(q.unsqueeze(2) - k.unsqueeze(1)).abs().mean(-1) / self.scale
        return dist.softmax(-1) @ v


class ANP(nn.Module):
    def __init__(self, x_dim=1, y_dim=1, d=24):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(x_dim + y_dim, d), nn.ReLU(), nn.Linear(d, d))
        self.att = LaplaceAttention(x_dim, 16)
        self.dec = nn.Sequential(nn.Linear(d + x_dim, d), nn.ReLU(), nn.Linear(d, 2 * y_dim))

    def forward(self, context_x, context_y, target_x):
        r = self.phi(torch.cat([context_x, context_y], -1))
        h = self.att(target_x, context_x, r)
        mu, s = self.dec(torch.cat([h, target_x], -1)).chunk(2, -1)
        return mu, 0.1 + 0.9 * torch.nn.functional.softplus(s)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(28)
        return ANP().eval()


g = torch.Generator().manual_seed(29)
inputs = {"context_x": torch.rand(2, 6, 1, generator=g) * 4, "context_y": torch.randn(2, 6, 1, generator=g),
          "target_x": torch.rand(2, 11, 1, generator=g) * 4}
