"""Electricity load forecaster, weights as they stood after the run with the tenfold learning rate."""
import torch
import torch.nn as nn


class LoadAttention(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        y = self.norm(x)
        q = self.q(y).view(b, t, self.heads, -1).permute(0, 2, 1, 3)
        k = self.k(y).view(b, t, self.heads, -1).permute(0, 2, 1, 3)
        v = self.v(y).view(b, t, self.heads, -1).permute(0, 2, 1, 3)
        p = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1)
        return x + self.o((p @ v).permute(0, 2, 1, 3).reshape(b, t, d))


def load_run(m):
    with torch.no_grad():
        for lin in (m.q, m.k):
            lin.weight.mul_(1.4)
    return m


with torch.random.fork_rng():
    torch.manual_seed(67)
    model = load_run(LoadAttention()).eval()
inputs = torch.randn(3, 28, 32, generator=torch.Generator().manual_seed(67))
