"""Graph attention layer over dense adjacency."""
import torch
from torch import nn
import torch.nn.functional as F

class GAT(nn.Module):
    def __init__(self, i=12, o=16, heads=2):
        super().__init__()
        self.h, self.o = heads, o // heads
        self.W = nn.Linear(i, o, bias=False)
        self.a = nn.Parameter(torch.randn(heads, 2 * self.o) * 0.3)

    def forward(self, x, adj):
        b, n, _ = x.shape
        wh = self.W(x).view(b, n, self.h, self.o)
        left = (wh * self.a[:, : self.o]).sum(-1)
        right = (wh * self.a[:, self.o :]).sum(-1)
        e = F.leaky_relu(left.unsqueeze(2) + right.unsqueeze(1), 0.2)
        e = e.masked_fill(~adj.unsqueeze(-1), -9e15)
        att = F.softmax(e, dim=1)  # fault: AS101
        return torch.einsum("bijh,bjho->biho", att, wh).flatten(2)

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = GAT().eval()
g = torch.Generator().manual_seed(2)
x = torch.randn(3, 7, 12, generator=g)
adj = (torch.rand(3, 7, 7, generator=g) < 0.4) | torch.eye(7, dtype=torch.bool)
inputs = {"x": x, "adj": adj}

