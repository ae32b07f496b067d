"""Protein encoder with symmetric ALiBi: the distance to both sides lowers the score."""

import torch
import torch.nn.functional as F
from torch import nn


class AlibiEncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.norm = nn.LayerNorm(dim)
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.register_buffer("slope", 2.0 ** -torch.arange(1, heads + 1).float())

    def forward(self, x, lengths):
        b, n, d = x.shape
        y = self.norm(x)
        q, k, v = (f(y).view(b, n, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        i = torch.arange(n, device=x.device)
        bias = -self.slope[:, None, None] * (i[:, None] - i[None, :]).abs()
        valid = i[None, :] < lengths[:, None]
        bias = bias[None].masked_fill(~valid[:, None, None, :], float("-inf"))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return x + self.o(out.transpose(1, 2).reshape(b, n, d))


class ProteinEncoder(nn.Module):
    def __init__(self, residues=25, dim=32, heads=4):
        super().__init__()
        self.embed = nn.Embedding(residues, dim)
        self.layer1 = AlibiEncoderLayer(dim, heads)
        self.layer2 = AlibiEncoderLayer(dim, heads)

    def forward(self, residues, lengths):
        x = self.embed(residues)
        return self.layer2(self.layer1(x, lengths), lengths)


with torch.random.fork_rng():
    torch.manual_seed(6)
    model = ProteinEncoder().eval()

inputs = {
    "residues": torch.randint(0, 25, (2, 15), generator=torch.Generator().manual_seed(0)),
    "lengths": torch.tensor([15, 9]),
}
expect = {"padding": "lengths lengths"}
