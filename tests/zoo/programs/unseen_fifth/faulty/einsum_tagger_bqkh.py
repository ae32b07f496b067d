"""NER tagger: BiLSTM-free encoder with einsum attention over subword embeddings."""
import math
import torch
from torch import nn

HPARAMS = dict(vocab=311, dim=60, heads=5, layers=2, n_tags=9, max_len=64)


class EinsumSelfAttention(nn.Module):
    def __init__(self, dim, heads, **kwargs):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.h, self.d)
        k = self.to_k(x).view(b, n, self.h, self.d)
        v = self.to_v(x).view(b, n, self.h, self.d)
        sim = torch.einsum("bqhd,bkhd->bqkh", q, k) / math.sqrt(self.d)
        alpha = sim.softmax(dim=-1)  # fault: AS101
        # alpha = self.drop(alpha)
        ctx = torch.einsum("bqkh,bkhd->bqhd", alpha, v)
        return self.proj(ctx.flatten(2))


class Tagger(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.emb = nn.Embedding(hp["vocab"], hp["dim"])
        self.pos = nn.Embedding(hp["max_len"], hp["dim"])
        self.att = nn.ModuleList([EinsumSelfAttention(**hp) for _ in range(hp["layers"])])
        self.ln = nn.ModuleList([nn.LayerNorm(hp["dim"]) for _ in range(hp["layers"])])
        self.out = nn.Linear(hp["dim"], hp["n_tags"])

    def forward(self, ids):
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))[None]
        for att, ln in zip(self.att, self.ln):
            x = x + att(ln(x))
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(3)
    model = Tagger(HPARAMS).eval()

inputs = (torch.randint(1, 311, (3, 17), generator=torch.Generator().manual_seed(1)),)
