"""Graph transformer on an edge list: scores per edge, softmax over the incoming edges of each node."""
import torch
import torch.nn as nn


def scatter_softmax(e, dst, n):
    top = torch.full((n, e.size(1)), -1e30).scatter_reduce(0, dst[:, None].expand_as(e), e, "amax")
    p = torch.exp(e - top[dst])
    return p / torch.zeros(n, e.size(1)).index_add(0, dst, p)[dst]


class TransformerConv(nn.Module):
    def __init__(self, c=32, heads=4):
        super().__init__()
        self.h = heads
        self.lin_query, self.lin_key, self.lin_value, self.lin_skip = (nn.Linear(c, c) for _ in range(4))

    def forward(self, x, edge_index):
        src, dst = edge_index
        n, c = x.shape
        q = self.lin_query(x).view(n, self.h, -1)[dst]
        k = self.lin_key(x).view(n, self.h, -1)[src]
        v = self.lin_value(x).view(n, self.h, -1)[src]
        alpha = scatter_softmax((q * k).sum(-1) / (c // self.h) ** 0.5, dst, n)
        out = torch.zeros(n, self.h, c // self.h).index_add(0, dst, alpha.unsqueeze(-1) * v)
        return out.flatten(1) + self.lin_skip(x)


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.c1, self.c2, self.out = nn.Linear(7, 32), TransformerConv(), TransformerConv(), nn.Linear(32, 3)

    def forward(self, x, edge_index):
        x = torch.relu(self.c1(self.inp(x), edge_index))
        return self.out(self.c2(x, edge_index))


with torch.random.fork_rng():
    torch.manual_seed(38)
    model = GNN().eval()
_g = torch.Generator().manual_seed(38)
inputs = (torch.randn(16, 7, generator=_g), torch.randint(0, 16, (2, 50), generator=_g))
