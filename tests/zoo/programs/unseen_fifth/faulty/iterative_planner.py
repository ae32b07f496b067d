"""Weight-shared attention core that refines a plan over several thinking steps."""
import torch
import torch.nn as nn


class Core(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x):
        B, N, d = x.shape
        f = lambda m: m(x).view(B, N, self.heads, -1).transpose(1, 2)
        s = f(self.q) @ f(self.k).transpose(2, 3) * (d // self.heads) ** -0.5
        return self.o((s.softmax(-1) @ f(self.v)).transpose(1, 2).reshape(B, N, d))


class Planner(nn.Module):
    def __init__(self, cell=4, d=32, heads=4, steps=8, n=10):
        super().__init__()
        self.inp = nn.Linear(cell, d)
        self.where = nn.Parameter(torch.randn(1, n, d) * 0.3)
        self.core = Core(d, heads)
        self.steps = steps
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.policy = nn.Linear(d, 3)

    def forward(self, grid):
        x = self.inp(grid) + self.where
        for _ in range(self.steps):
            x = x + self.core(x)  # fault: AS303|AS302|AS904|AS403
            x = x + self.ffn(x)
        return self.policy(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(63)
        net = Planner()
        for p in net.core.parameters():
            nn.init.orthogonal_(p, gain=1.0)
    return net.eval()


inputs = torch.randn(2, 10, 4, generator=torch.Generator().manual_seed(66))
# also: AS902
