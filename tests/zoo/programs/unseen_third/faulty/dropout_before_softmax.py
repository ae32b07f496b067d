"""Transformer language model, my reading of Vaswani et al."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, n_embd, head_size, ctx, p):
        super().__init__()
        self.k, self.q, self.v = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(ctx, ctx)))
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        T = x.shape[1]
        wei = self.q(x) @ self.k(x).transpose(-2, -1) * self.k.out_features**-0.5
        wei = self.dropout(wei)  # fault: AS702
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = wei.softmax(dim=-1)
        return wei @ self.v(x)


class Model(nn.Module):
    def __init__(self, vocab=64, n_embd=32, heads=4, ctx=32, p=0.2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, n_embd), nn.Embedding(ctx, n_embd)
        self.heads = nn.ModuleList([Head(n_embd, n_embd // heads, ctx, p) for _ in range(heads)])
        self.proj, self.ln = nn.Linear(n_embd, n_embd), nn.LayerNorm(n_embd)
        self.lm = nn.Linear(n_embd, vocab)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        x = x + self.proj(torch.cat([h(self.ln(x)) for h in self.heads], dim=-1))
        return self.lm(x)


torch.manual_seed(1337)
model = Model()
