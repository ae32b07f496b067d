"""Set transformer: induced points, no order, pooled by a seed."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k = nn.Linear(dim_Q, dim_V), nn.Linear(dim_K, dim_V)
        self.fc_v, self.fc_o = nn.Linear(dim_K, dim_V), nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q, K, V = self.fc_q(Q), self.fc_k(K), self.fc_v(K)
        split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(split, 2), 0)
        K_ = torch.cat(K.split(split, 2), 0)
        V_ = torch.cat(V.split(split, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / split**0.5, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        return O + F.relu(self.fc_o(O))


class SetTransformer(nn.Module):
    def __init__(self, dim_in=3, hidden=24, inds=5, heads=4):
        super().__init__()
        self.I = nn.Parameter(torch.randn(1, inds, hidden))
        self.mab0, self.mab1 = MAB(hidden, dim_in, hidden, heads), MAB(dim_in, hidden, hidden, heads)
        self.S = nn.Parameter(torch.randn(1, 1, hidden))
        self.pma = MAB(hidden, hidden, hidden, heads)

    def forward(self, points):
        n = points.size(0)
        h = self.mab1(points, self.mab0(self.I.repeat(n, 1, 1), points))
        return self.pma(self.S.repeat(n, 1, 1), h).squeeze(1)


torch.manual_seed(8)
model = SetTransformer().eval()
inputs = torch.randn(5, 14, 3)
expect = {"positions": False}
