"""Attention over audio frames in half precision, softmax spelled out with exp and sum."""

import torch
from torch import nn


def softmax(scores):
    e = torch.exp(scores)  # fault: AS802|AS304
    return e / e.sum(dim=-1, keepdim=True)


class FrameAttention(nn.Module):
    def __init__(self, n_mels, dim):
        super().__init__()
        self.dim = dim
        self.inp = nn.Linear(n_mels, dim)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)

    def forward(self, mel):
        h = self.inp(mel)
        q, k, v = self.wq(h), self.wk(h), self.wv(h)
        scores = q @ k.transpose(1, 2) * self.dim**-0.5
        w = softmax(scores)
        return (w @ v), w


def model():
    with torch.random.fork_rng():
        torch.manual_seed(180)
        net = FrameAttention(n_mels=20, dim=32)
        with torch.no_grad():
            net.wq.weight.mul_(6.0)
            net.wk.weight.mul_(6.0)
        return net.half().eval()


def inputs():
    return torch.randn(2, 400, 20, generator=torch.Generator().manual_seed(181)).half()

# also: AS803 AS501
