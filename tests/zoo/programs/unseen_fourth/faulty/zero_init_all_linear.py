"""Anomaly detector on telemetry; weights initialised by hand."""
import torch
from torch import nn
import torch.nn.functional as F


class Telemetry(nn.Module):
    def __init__(self, n_sig=7, d=24, h=2):
        super().__init__()
        self.h = h
        self.inp = nn.Linear(n_sig, d)
        self.pos = nn.Parameter(torch.randn(64, d) * .1)
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.rec = nn.Linear(d, n_sig)
        self.reset_parameters()

    def reset_parameters(self):
        for lin in (self.q, self.k):
            nn.init.zeros_(lin.weight)  # fault: AS902
            nn.init.zeros_(lin.bias)
        nn.init.xavier_uniform_(self.v.weight)

    def forward(self, window):
        x = self.inp(window) + self.pos[:window.shape[1]]
        b, t, d = x.shape
        q, k, v = (f(x).reshape(b, t, self.h, -1).swapaxes(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).swapaxes(1, 2).reshape(b, t, d)
        return self.rec(x + y)


torch.manual_seed(6)
model = Telemetry().eval()
inputs = {"window": torch.randn(3, 20, 7, generator=torch.Generator().manual_seed(6))}
# also: AS901 AS401 AS402
