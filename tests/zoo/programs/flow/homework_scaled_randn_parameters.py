"""Homework: multi-head attention from matrices, no nn.Linear."""

import torch


class MyMultiHeadAttention(torch.nn.Module):
    def __init__(self, D, H):
        super().__init__()
        self.H = H
        self.Wq = torch.nn.Parameter(torch.randn(D, D) / D**0.5)
        self.Wk = torch.nn.Parameter(torch.randn(D, D) / D**0.5)
        self.Wv = torch.nn.Parameter(torch.randn(D, D) / D**0.5)
        self.Wo = torch.nn.Parameter(torch.randn(D, D) / D**0.5)

    def forward(self, X):
        N, L, D = X.shape
        dh = D // self.H
        Q = (X @ self.Wq).reshape(N, L, self.H, dh).transpose(1, 2)
        K = (X @ self.Wk).reshape(N, L, self.H, dh).transpose(1, 2)
        V = (X @ self.Wv).reshape(N, L, self.H, dh).transpose(1, 2)
        A = torch.softmax(Q @ K.transpose(2, 3) / dh**0.5, dim=3)
        Z = (A @ V).transpose(1, 2).reshape(N, L, D)
        return Z @ self.Wo


def model():
    with torch.random.fork_rng():
        torch.manual_seed(91)
        return MyMultiHeadAttention(80, 5)


inputs = (torch.randn(3, 14, 80, generator=torch.Generator().manual_seed(91)),)
# note: AS501
