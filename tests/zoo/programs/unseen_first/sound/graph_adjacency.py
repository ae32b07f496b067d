"""Graph transformer layer: nodes attend to neighbours given by an adjacency matrix with self loops."""
import torch
from torch import nn


class GraphAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, nodes, adj):
        B, N, D = nodes.shape
        Q = self.W_q(nodes).reshape(B, N, self.h, -1).swapaxes(1, 2)
        K = self.W_k(nodes).reshape(B, N, self.h, -1).swapaxes(1, 2)
        V = self.W_v(nodes).reshape(B, N, self.h, -1).swapaxes(1, 2)
        E = torch.einsum("bhxd,bhyd->bhxy", Q, K) / (D // self.h) ** 0.5
        E = torch.where(adj[:, None] > 0, E, torch.full_like(E, -9e15))
        A = nn.functional.softmax(E, dim=3)
        return nodes + self.W_o(torch.einsum("bhxy,bhyd->bhxd", A, V).swapaxes(1, 2).reshape(B, N, D))


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(4, 24)
        self.l1, self.l2 = GraphAttention(24, 3), GraphAttention(24, 3)

    def forward(self, features, adj):
        return self.l2(self.l1(self.lift(features), adj), adj)


torch.manual_seed(57)
model = Graph().eval()
_a = torch.rand(2, 11, 11) > 0.7
inputs = (torch.randn(2, 11, 4), (_a | _a.transpose(1, 2) | torch.eye(11, dtype=torch.bool)).float())
expect = {"positions": False}
