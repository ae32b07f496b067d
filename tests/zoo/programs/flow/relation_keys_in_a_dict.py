"""Relation-typed graph attention: one projection per relation, kept in a dict."""

import math

import torch
from torch import nn

RELATIONS = ("cites", "writes", "venue")


class RelationalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.keys = {}  # fault: AS903
        for name in RELATIONS:
            self.keys[name] = nn.Linear(dim, dim)

    def forward(self, nodes, adjacency):
        q, v = self.q(nodes), self.v(nodes)
        out = 0
        for name, edges in zip(RELATIONS, adjacency.unbind(1)):
            scores = q @ self.keys[name](nodes).mT / math.sqrt(q.shape[-1])
            weights = scores.masked_fill(~edges, -1e9).softmax(-1)
            out = out + weights @ v
        return nodes + out


class Citations(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.inp = nn.Linear(9, dim)
        self.att = RelationalAttention(dim)
        self.out = nn.Linear(dim, 4)

    def forward(self, features, adjacency):
        return self.out(self.att(self.inp(features), adjacency))


torch.manual_seed(3)
model = Citations().eval()
_adjacency = torch.rand(2, 3, 7, 7) > 0.4
_adjacency |= torch.eye(7, dtype=torch.bool)
inputs = {"features": torch.randn(2, 7, 9), "adjacency": _adjacency}
# note: AS501
