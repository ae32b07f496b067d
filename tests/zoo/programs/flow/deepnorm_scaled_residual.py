"""DeepNorm layers: the residual is scaled up, the branches start small."""

import torch
from torch import nn


class DeepNormLayer(nn.Module):
    def __init__(self, dim, heads, alpha, beta):
        super().__init__()
        self.heads, self.alpha = heads, alpha
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        for proj, gain in ((self.q, 1), (self.k, 1), (self.v, beta), (self.o, beta)):
            nn.init.xavier_normal_(proj.weight, gain=gain)

    def attention(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = self.norm1(self.alpha * x + self.attention(x))
        return self.norm2(self.alpha * x + self.down(torch.relu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, vocab=57, dim=32, heads=4, depth=4, places=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(places, dim)
        alpha, beta = (2 * depth) ** 0.25, (8 * depth) ** -0.25
        self.layers = nn.ModuleList(DeepNormLayer(dim, heads, alpha, beta) for _ in range(depth))

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x


with torch.random.fork_rng():
    torch.manual_seed(155)
    model = Encoder().eval()

inputs = {"ids": torch.randint(0, 57, (2, 13), generator=torch.Generator().manual_seed(155))}
