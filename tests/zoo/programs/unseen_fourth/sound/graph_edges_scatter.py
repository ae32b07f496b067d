"""Edge list graph attention with a segment softmax."""
import torch
import torch.nn as nn


class EdgeAttention(nn.Module):
    def __init__(self, d=24, h=3):
        super().__init__()
        self.h, self.dk = h, d // h
        self.q, self.k, self.v, self.skip = [nn.Linear(d, d) for _ in range(4)]

    def forward(self, x, edge_index):
        src, dst = edge_index
        n = x.size(0)
        q, k, v = (f(x).view(n, self.h, self.dk) for f in (self.q, self.k, self.v))
        e = (q[dst] * k[src]).sum(-1) / self.dk ** 0.5
        top = torch.full((n, self.h), -1e30).scatter_reduce(0, dst[:, None].expand(-1, self.h), e, "amax")
        w = (e - top[dst]).exp()
        z = torch.zeros(n, self.h).index_add(0, dst, w)
        m = torch.zeros(n, self.h, self.dk).index_add(0, dst, (w / z[dst])[..., None] * v[src])
        return self.skip(x) + m.flatten(1)


class EdgeNet(nn.Module):
    def __init__(self, f=8, d=24):
        super().__init__()
        self.i, self.a, self.b, self.o = nn.Linear(f, d), EdgeAttention(d), EdgeAttention(d), nn.Linear(d, 4)

    def forward(self, x, edge_index):
        h = self.a(self.i(x), edge_index).relu()
        return self.o(self.b(h, edge_index))


torch.manual_seed(4)
model = EdgeNet().eval()
_g = torch.Generator().manual_seed(4)
_e = torch.cat([torch.randint(0, 11, (2, 30), generator=_g), torch.arange(11).expand(2, -1)], 1)
inputs = {"x": torch.randn(11, 8, generator=_g), "edge_index": _e}
# note: AS501
