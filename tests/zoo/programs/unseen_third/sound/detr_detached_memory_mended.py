"""Detection decoder: cross-attention where the sampling logits are kept out of the graph for speed."""
import torch
import torch.nn as nn


class CrossBlock(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.norm = nn.LayerNorm(d)

    def forward(self, tgt, memory):
        b, nq, d = tgt.shape
        split = lambda t: t.view(b, -1, self.h, d // self.h).transpose(1, 2)
        logits = split(self.q(tgt)) @ split(self.k(memory)).mT / (d // self.h) ** 0.5
        out = logits.softmax(-1) @ split(self.v(memory))
        return self.norm(tgt + self.o(out.transpose(1, 2).reshape(b, nq, d)))


class Decoder(nn.Module):
    def __init__(self, d=32, queries=6):
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, d))
        self.b1, self.b2 = CrossBlock(d), CrossBlock(d)
        self.box = nn.Linear(d, 4)

    def forward(self, memory):
        t = self.query.expand(memory.size(0), -1, -1)
        return self.box(self.b2(self.b1(t, memory), memory)).sigmoid()


with torch.random.fork_rng():
    torch.manual_seed(103)
    model = Decoder().eval()
inputs = torch.randn(2, 18, 32, generator=torch.Generator().manual_seed(103))
