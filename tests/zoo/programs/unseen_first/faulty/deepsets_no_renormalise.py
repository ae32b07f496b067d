"""Set transformer block: induced points, no order on purpose, mask and renormalise after the softmax."""
import torch
from torch import nn


class MAB(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.fq, self.fk, self.fv, self.fo = (nn.Linear(dim, dim) for _ in range(4))
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, X, Y, present=None):
        Q, K, V = self.fq(X), self.fk(Y), self.fv(Y)
        cut = Q.shape[-1] // self.h
        Q_ = torch.cat(Q.split(cut, 2), 0)
        K_ = torch.cat(K.split(cut, 2), 0)
        V_ = torch.cat(V.split(cut, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / cut**0.5, 2)
        if present is not None:
            A = A * present.repeat(self.h, 1)[:, None, :]  # fault: AS204
        O = torch.cat(A.bmm(V_).split(X.shape[0], 0), 2)
        O = self.ln0(X + O)
        return self.ln1(O + torch.relu(self.fo(O)))


class SetNet(nn.Module):
    def __init__(self, dim_in=4, dim=30, heads=3, points=6):
        super().__init__()
        self.enc = nn.Linear(dim_in, dim)
        self.I = nn.Parameter(torch.randn(1, points, dim))
        self.mab0, self.mab1 = MAB(dim, heads), MAB(dim, heads)
        self.out = nn.Linear(dim, 1)

    def forward(self, items, present):
        x = self.enc(items)
        h = self.mab0(self.I.expand(len(x), -1, -1), x, present)
        return self.out(self.mab1(x, h)).squeeze(-1)


torch.manual_seed(44)
model = SetNet().eval()
inputs = (torch.randn(4, 13, 4), (torch.arange(13) < torch.tensor([[13], [10], [6], [8]])).float())
expect = {"positions": False, "padding": "present keep"}
