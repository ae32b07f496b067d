"""Daily-returns encoder: stacked nn.MultiheadAttention over time, batch first."""
import torch
import torch.nn as nn


class TimeMixer(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.mha = nn.MultiheadAttention(width, n_heads, batch_first=True)
        self.ln = nn.LayerNorm(width)

    def forward(self, series):
        y, w = self.mha(series, series, series)
        return self.ln(series + y)


class StockModel(nn.Module):
    def __init__(self, features=6, width=24, n_heads=3):
        super().__init__()
        self.inp = nn.Linear(features, width)
        self.time = nn.Parameter(torch.randn(30, width) * 0.1)
        self.mix1 = TimeMixer(width, n_heads)
        self.mix2 = TimeMixer(width, n_heads)
        self.out = nn.Linear(width, 1)

    def forward(self, returns):
        x = self.inp(returns) + self.time[: returns.shape[0]].unsqueeze(1)  # fault: AS502
        return self.out(self.mix2(self.mix1(x)))[..., 0]


with torch.random.fork_rng():
    torch.manual_seed(31)
    model = StockModel().eval()
    inputs = torch.randn(7, 21, 6)
# also: AS501
