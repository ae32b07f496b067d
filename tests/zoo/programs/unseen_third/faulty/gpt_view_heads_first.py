"""GPT-ish block I wrote for my thesis, attention per head with a view."""
import torch
from torch import nn


class SelfAttn(nn.Module):
    def __init__(self, emb, heads=3, max_t=128):
        super().__init__()
        self.heads = heads
        self.key = nn.Linear(emb, emb, bias=False)
        self.query = nn.Linear(emb, emb, bias=False)
        self.value = nn.Linear(emb, emb, bias=False)
        self.unify = nn.Linear(emb, emb)
        self.register_buffer("tri", torch.tril(torch.ones(max_t, max_t)))

    def forward(self, x):
        B, T, C = x.shape
        hs = C // self.heads
        k = self.key(x).view(B, self.heads, T, hs)  # fault: AS103
        q = self.query(x).view(B, self.heads, T, hs)  # fault: AS103
        v = self.value(x).view(B, self.heads, T, hs)  # fault: AS103
        wei = q @ k.transpose(-2, -1) * hs**-0.5
        wei = wei.masked_fill(self.tri[:T, :T] == 0, float("-inf"))
        wei = wei.softmax(-1)
        out = (wei @ v).transpose(1, 2).reshape(B, T, C)
        return self.unify(out)


class TinyLM(nn.Module):
    def __init__(self, vocab=66, emb=33, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.pos = nn.Embedding(128, emb)
        self.attn = nn.ModuleList([SelfAttn(emb) for _ in range(depth)])
        self.norm = nn.ModuleList([nn.LayerNorm(emb) for _ in range(depth)])
        self.ff = nn.ModuleList([nn.Sequential(nn.LayerNorm(emb), nn.Linear(emb, 99), nn.GELU(), nn.Linear(99, emb)) for _ in range(depth)])
        self.head = nn.Linear(emb, vocab)

    def forward(self, tokens):
        h = self.embed(tokens) + self.pos.weight[: tokens.shape[1]]
        for a, n, f in zip(self.attn, self.norm, self.ff):
            h = h + a(n(h))
            h = h + f(h)
        return self.head(h)


# also: AS201
torch.manual_seed(0)
model = TinyLM().eval()
