"""Traffic flow forecaster: causal over history, one block per resolution."""
import torch
from torch import nn
import torch.nn.functional as F


class TemporalBlock(nn.Module):
    def __init__(self, d, h, causal=False):
        super().__init__()
        self.d, self.h, self.causal = d, h, causal
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.n = nn.LayerNorm(d)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = [z.view(b, t, self.h, -1).transpose(1, 2) for z in self.qkv(self.n(x)).split(self.d, -1)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return x + self.o(y.transpose(1, 2).flatten(2))


class Flow(nn.Module):
    def __init__(self, sensors=5, d=24, h=2, horizon=3):
        super().__init__()
        self.inp = nn.Linear(sensors, d)
        self.pos = nn.Parameter(torch.randn(1, 48, d) * 0.05)
        self.b1 = TemporalBlock(d, h, causal=True)
        self.b2 = TemporalBlock(d, h, causal=True)
        self.b3 = TemporalBlock(d, h)  # fault: AS201
        self.head = nn.Linear(d, sensors * horizon)

    def forward(self, series):
        x = self.inp(series) + self.pos[:, :series.shape[1]]
        return self.head(self.b3(self.b2(self.b1(x))))


def model():
    torch.manual_seed(6)
    return Flow().eval()


inputs = {"series": torch.randn(3, 14, 5, generator=torch.Generator().manual_seed(6))}
expect = dict(causal=True)
