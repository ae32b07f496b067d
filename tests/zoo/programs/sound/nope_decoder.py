"""Decoder without positional embedding: the causal mask alone tells the order."""

import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, c, nh):
        super().__init__()
        self.nh = nh
        self.key = nn.Linear(c, c, bias=False)
        self.query = nn.Linear(c, c, bias=False)
        self.value = nn.Linear(c, c, bias=False)
        self.proj = nn.Linear(c, c, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(40, 40)))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x).view(B, T, self.nh, C // self.nh).transpose(1, 2)
        q = self.query(x).view(B, T, self.nh, C // self.nh).transpose(1, 2)
        v = self.value(x).view(B, T, self.nh, C // self.nh).transpose(1, 2)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = wei.softmax(-1)
        return self.proj((wei @ v).transpose(1, 2).reshape(B, T, C))


class NoPEDecoder(nn.Module):
    def __init__(self, vocab=33, c=30, nh=3, depth=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, c)
        self.sa = nn.ModuleList(Attn(c, nh) for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(c, 2 * c), nn.ReLU(), nn.Linear(2 * c, c)) for _ in range(depth))
        self.n1 = nn.ModuleList(nn.LayerNorm(c) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(c) for _ in range(depth))
        self.out = nn.Linear(c, vocab)

    def forward(self, idx):
        x = self.emb(idx)
        for sa, ff, n1, n2 in zip(self.sa, self.ff, self.n1, self.n2):
            x = x + sa(n1(x))
            x = x + ff(n2(x))
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(40)
    model = NoPEDecoder().eval()

inputs = torch.randint(0, 33, (2, 11), generator=torch.Generator().manual_seed(2))
expect = {"causal": True}
# note: AS501
