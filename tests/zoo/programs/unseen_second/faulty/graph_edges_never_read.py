"""Attention restricted to neighbours; every node keeps a self loop."""

import torch
from torch import nn


class NeighbourAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.dk = h, d // h
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.mix = nn.Linear(d, d)

    def forward(self, nodes, edges):
        b, n, d = nodes.shape
        q, k, v = (t.view(b, n, self.h, self.dk).permute(0, 2, 1, 3) for t in self.qkv(nodes).chunk(3, -1))
        score = (q @ k.transpose(2, 3)) * self.dk ** -0.5
        weights = score.softmax(-1)  # fault: AS208
        return nodes + self.mix((weights @ v).permute(0, 2, 1, 3).reshape(b, n, d))


class Net(nn.Module):
    def __init__(self, feats=9, d=20):
        super().__init__()
        self.enter = nn.Linear(feats, d)
        self.layers = nn.ModuleList([NeighbourAttention(d, 4), NeighbourAttention(d, 4)])
        self.leave = nn.Linear(d, 3)

    def forward(self, nodes, edges):
        x = self.enter(nodes)
        for layer in self.layers:
            x = layer(x, edges)
        return self.leave(x)


g = torch.Generator().manual_seed(14)
edges = torch.rand(3, 10, 10, generator=g) < 0.25
edges[1, 4] = False
inputs = {"nodes": torch.randn(3, 10, 9, generator=g), "edges": edges}
with torch.random.fork_rng():
    torch.manual_seed(14)
    model = Net().eval()
# also: AS501
