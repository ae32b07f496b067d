"""Sentiment classifier; the encoder blocks come from the GPT file of the same repo."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MHSA(nn.Module):
    def __init__(self, emb, n_heads, seq_max=100, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v = nn.Linear(emb, emb), nn.Linear(emb, emb), nn.Linear(emb, emb)
        self.unify = nn.Linear(emb, emb)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(seq_max, seq_max), diagonal=1).bool())

    def forward(self, x):
        b, t, e = x.size()
        h, s = self.n_heads, e // self.n_heads
        q = self.q(x).view(b, t, h, s).transpose(1, 2)
        k = self.k(x).view(b, t, h, s).transpose(1, 2)
        v = self.v(x).view(b, t, h, s).transpose(1, 2)
        dot = q @ k.transpose(2, 3) / s ** 0.5
        dot.masked_fill_(self.mask[:t, :t], float("-inf"))  # fault: AS212
        dot = self.dropout(F.softmax(dot, dim=3))
        return self.unify((dot @ v).transpose(1, 2).reshape(b, t, e))


class SentimentNet(nn.Module):
    def __init__(self, vocab=400, emb=40, heads=5, depth=2, classes=2):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab, emb)
        self.pos_embedding = nn.Embedding(100, emb)
        self.tblocks = nn.ModuleList([MHSA(emb, heads) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(emb) for _ in range(depth)])
        self.toprobs = nn.Linear(emb, classes)

    def forward(self, x):
        tokens = self.token_embedding(x)
        x = tokens + self.pos_embedding(torch.arange(x.size(1), device=x.device))[None]
        for blk, n in zip(self.tblocks, self.norms):
            x = n(blk(x) + x)
        return F.log_softmax(self.toprobs(x[:, 0]), dim=1)


with torch.random.fork_rng():
    torch.manual_seed(4)
    model = SentimentNet().eval()
inputs = (torch.randint(0, 400, (3, 15), generator=torch.Generator().manual_seed(4)),)
expect = {"causal": False}
