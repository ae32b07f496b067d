"""Attention on a citation graph restricted to linked papers."""
import torch
from torch import nn
import torch.nn.functional as F


class GraphMHA(nn.Module):
    def __init__(self, dim: int, n_heads: int = 4, drop: float = 0.):
        super().__init__()
        self.n_heads = n_heads
        self.lin_qkv = nn.Linear(dim, 3 * dim)
        self.lin_out = nn.Linear(dim, dim)
        self.drop = drop

    def forward(self, x, adj):
        B, N, D = x.size()
        q, k, v = self.lin_qkv(x).view(B, N, self.n_heads, 3, D // self.n_heads).permute(3, 0, 2, 1, 4)
        alpha = torch.softmax(q @ k.transpose(2, 3) * (D // self.n_heads) ** -0.5, dim=-1)
        alpha = alpha * adj.unsqueeze(1)  # fault: AS204
        alpha = F.dropout(alpha, p=self.drop, training=self.training)
        return self.lin_out((alpha @ v).transpose(1, 2).flatten(2))


class CiteNet(nn.Module):
    def __init__(self, feats=12, dim=32, classes=4, layers=2):
        super().__init__()
        self.enc = nn.Linear(feats, dim)
        self.convs = nn.ModuleList([GraphMHA(dim) for _ in range(layers)])
        self.bns = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.dec = nn.Linear(dim, classes)

    def forward(self, x, adj):
        x = self.enc(x)
        for conv, bn in zip(self.convs, self.bns):
            x = bn(x + F.relu(conv(x, adj)))
        return self.dec(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(24)
        return CiteNet().eval()


def inputs():
    gen = torch.Generator().manual_seed(25)
    x = torch.randn(1, 11, 12, generator=gen)
    a = (torch.rand(1, 11, 11, generator=gen) < .25).float()
    return x, ((a + a.transpose(1, 2) + torch.eye(11)) > 0).float()
