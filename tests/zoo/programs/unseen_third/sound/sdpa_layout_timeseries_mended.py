"""Sensor transformer; projections give (batch, time, heads, width), straight into the fused kernel."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FusedAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_keys=None):
        super().__init__()
        d_keys = d_keys or d_model // n_heads
        self.n_heads = n_heads
        self.wq = nn.Linear(d_model, d_keys * n_heads)
        self.wk = nn.Linear(d_model, d_keys * n_heads)
        self.wv = nn.Linear(d_model, d_keys * n_heads)
        self.wo = nn.Linear(d_keys * n_heads, d_model)

    def forward(self, x):
        B, L, _ = x.shape
        q = self.wq(x).view(B, L, self.n_heads, -1)
        k = self.wk(x).view(B, L, self.n_heads, -1)
        v = self.wv(x).view(B, L, self.n_heads, -1)
        y = F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in (q, k, v))).transpose(1, 2)
        return self.wo(y.reshape(B, L, -1))


class SensorNet(nn.Module):
    def __init__(self, sensors=9, d_model=40, heads=5, out=3):
        super().__init__()
        self.inp = nn.Conv1d(sensors, d_model, 3, padding=1)
        self.att = nn.ModuleList([FusedAttention(d_model, heads) for _ in range(2)])
        self.ln = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(2)])
        self.cls = nn.Linear(d_model, out)

    def forward(self, x):
        x = self.inp(x.mT).mT
        for a, l in zip(self.att, self.ln):
            x = x + a(l(x))
        return self.cls(x.mean(1))


with torch.random.fork_rng():
    torch.manual_seed(61)
    model = SensorNet().eval()
inputs = torch.randn(4, 26, 9, generator=torch.Generator().manual_seed(61))
