"""Headline generator encoder; three separate projections per block, tanh feed-forward."""
import torch
import torch.nn as nn


class SelfAtt(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.size, self.heads = size, heads
        self.lin_q = nn.Linear(size, size)
        self.lin_k = nn.Linear(size, size)
        self.lin_v = nn.Linear(size, size)
        self.lin_o = nn.Linear(size, size)

    def forward(self, inp):
        bsz, ln, _ = inp.shape
        per = self.size // self.heads
        q = self.lin_q(inp).reshape(bsz, ln, self.heads, per).movedim(2, 1)
        k = self.lin_k(inp).reshape(bsz, ln, self.heads, per).movedim(2, 1)
        v = self.lin_k(inp).reshape(bsz, ln, self.heads, per).movedim(2, 1)  # fault: AS903
        a = torch.matmul(q, k.mT).div(per ** 0.5).softmax(dim=-1)
        return self.lin_o(torch.matmul(a, v).movedim(1, 2).reshape(bsz, ln, self.size))


class HeadlineEncoder(nn.Module):
    def __init__(self, n_words=333, size=36, heads=6, blocks=2):
        super().__init__()
        self.lookup = nn.Embedding(n_words, size)
        self.register_buffer("where", torch.randn(1, 60, size, generator=torch.Generator().manual_seed(1)) * 0.2)
        self.att = nn.ModuleList([SelfAtt(size, heads) for _ in range(blocks)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(size, size), nn.Tanh()) for _ in range(blocks)])
        self.ln = nn.ModuleList([nn.LayerNorm(size) for _ in range(2 * blocks)])

    def forward(self, words):
        h = self.lookup(words) + self.where[:, : words.size(1)]
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            h = self.ln[2 * i](h + a(h))
            h = self.ln[2 * i + 1](h + f(h))
        return h


torch.manual_seed(903)
model = HeadlineEncoder().eval()
inputs = (torch.randint(0, 333, (3, 10), generator=torch.Generator().manual_seed(903)),)
