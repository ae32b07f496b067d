"""Protein chains: contacts are spread over heads far from where they are used."""

import torch
from torch import nn


def for_heads(contact, heads):
    """(batch, n, n) to (batch · heads, n, n), the heads of a sample side by side."""
    b, n, _ = contact.shape
    return contact[:, None].expand(b, heads, n, n).reshape(b * heads, n, n)


class Chain(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def heads_first(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, -1).transpose(1, 2).reshape(b * self.heads, n, -1)

    def forward(self, x, contact):
        b, n, d = x.shape
        q, k, v = (self.heads_first(p(x)) for p in (self.q, self.k, self.v))
        scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        scores = scores + contact
        y = torch.bmm(scores.softmax(-1), v)
        return x + self.o(y.view(b, self.heads, n, -1).transpose(1, 2).reshape(b, n, d))


class Protein(nn.Module):
    def __init__(self, residues=24, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.residue, self.place = nn.Embedding(residues, width), nn.Embedding(40, width)
        self.chains = nn.ModuleList(Chain(width, heads) for _ in range(2))
        self.out = nn.Linear(width, 3)

    def forward(self, residues, contact):
        far = (1.0 - contact.float()) * -1e9
        bias = for_heads(far, self.heads)
        x = self.residue(residues) + self.place.weight[: residues.shape[1]]
        for chain in self.chains:
            x = chain(x, bias)
        return self.out(x)


torch.manual_seed(75)
model = Protein().eval()
_near = torch.rand(3, 10, 10, generator=torch.Generator().manual_seed(75)) > 0.6
inputs = {
    "residues": torch.randint(0, 24, (3, 10)),
    "contact": _near | _near.mT | torch.eye(10, dtype=torch.bool),
}
