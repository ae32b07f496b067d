"""Graphormer layer applied twice: shortest path bias, degree embedding, virtual node, padded graphs."""
import torch
import torch.nn as nn


class Graphormer(nn.Module):
    def __init__(self, types=9, d=32, h=4, max_deg=8, max_dist=6, rounds=2):
        super().__init__()
        self.h, self.rounds = h, rounds
        self.atom = nn.Embedding(types + 1, d, padding_idx=0)
        self.degree = nn.Embedding(max_deg, d)
        self.graph_token = nn.Embedding(1, d)
        self.spatial = nn.Embedding(max_dist, h)
        self.virtual_dist = nn.Embedding(1, h)
        self.ln = nn.LayerNorm(d)
        self.linear_q, self.linear_k, self.linear_v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.output_layer = nn.Linear(d, d)
        self.head = nn.Linear(d, 1)

    def forward(self, atoms, degree, dist):
        B, N = atoms.shape
        x = self.atom(atoms) + self.degree(degree)
        x = torch.cat([self.graph_token.weight.unsqueeze(0).expand(B, -1, -1), x], 1)
        bias = torch.zeros(B, self.h, N + 1, N + 1)
        bias[:, :, 1:, 1:] = self.spatial(dist).permute(0, 3, 1, 2)
        t = self.virtual_dist.weight.view(1, self.h, 1)
        bias[:, :, 1:, 0] = bias[:, :, 1:, 0] + t
        bias[:, :, 0, :] = bias[:, :, 0, :] + t
        pad = torch.cat([torch.zeros(B, 1, dtype=torch.bool), atoms.eq(0)], 1)
        bias = bias.masked_fill(pad[:, None, None, :], float("-inf"))
        for _ in range(self.rounds):
            y = self.ln(x)
            q, k, v = [f(y).view(B, N + 1, self.h, -1).transpose(1, 2) for f in (self.linear_q, self.linear_k, self.linear_v)]
            q = q * q.size(-1) ** -0.5
            a = torch.matmul(q, k.transpose(2, 3)) + bias
            y = torch.softmax(a, dim=3).matmul(v).transpose(1, 2).contiguous().view(B, N + 1, -1)
            x = x + self.output_layer(y)
        return self.head(x[:, 0])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Graphormer().eval()


def inputs():
    g = torch.Generator().manual_seed(4)
    atoms = torch.randint(1, 10, (2, 7), generator=g)
    atoms[1, 5:] = 0
    d = torch.randint(0, 6, (2, 7, 7), generator=g)
    return {"atoms": atoms, "degree": torch.randint(0, 8, (2, 7), generator=g), "dist": torch.minimum(d, d.mT)}


expect = {"padding": "atoms pad=0"}
