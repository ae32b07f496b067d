"""Convolutional self-attention for sales forecasting (queries and keys see a local shape)."""
import torch
import torch.nn as nn


class ConvAttention(nn.Module):
    def __init__(self, d, n_head, kernel=3):
        super().__init__()
        self.n_head = n_head
        self.conv_q = nn.Conv1d(d, d, kernel, padding=kernel // 2)  # fault: AS201
        self.conv_k = nn.Conv1d(d, d, kernel, padding=kernel // 2)  # fault: AS201
        self.lin_v = nn.Linear(d, d)
        self.lin_o = nn.Linear(d, d)
        self.kernel = kernel

    def forward(self, x):
        B, T, d = x.shape
        q = self.conv_q(x.mT).mT  # fault: AS201
        k = self.conv_k(x.mT).mT  # fault: AS201
        v = self.lin_v(x)
        q, k, v = (t.reshape(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v))
        score = q @ k.mT * q.size(-1) ** -0.5
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        w = score.masked_fill(future, float("-inf")).softmax(-1)
        return self.lin_o((w @ v).transpose(1, 2).reshape(B, T, d))


class SalesModel(nn.Module):
    def __init__(self, covariates=4, d=28, heads=4, depth=2, items=10):
        super().__init__()
        self.item = nn.Embedding(items, d)
        self.inp = nn.Linear(covariates + 1, d)
        self.att = nn.ModuleList([ConvAttention(d, heads) for _ in range(depth)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d, d * 2), nn.ReLU(), nn.Linear(d * 2, d)) for _ in range(depth)])
        self.na = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])
        self.nf = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])
        self.mu, self.sigma = nn.Linear(d, 1), nn.Linear(d, 1)

    def forward(self, series, item):
        x = self.inp(series) + self.item(item)[:, None]
        for a, f, na, nf in zip(self.att, self.ff, self.na, self.nf):
            x = na(x + a(x))
            x = nf(x + f(x))
        return self.mu(x).squeeze(-1), nn.functional.softplus(self.sigma(x)).squeeze(-1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(61)
        return SalesModel().eval()


inputs = (torch.randn(3, 11, 5, generator=torch.Generator().manual_seed(62)), torch.tensor([1, 7, 3]))
expect = {"causal": True}
