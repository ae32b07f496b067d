"""Bi-encoder for retrieval: embeds queries and passages, single-head attention pooled by mean."""
import torch
import torch.nn as nn


class SmallBiEncoder(nn.Module):
    def __init__(self, n_tokens=257, d=40):
        super().__init__()
        self.tok = nn.Embedding(n_tokens, d)
        self.pos = nn.Embedding(128, d)
        self.Wq = nn.Linear(d, d)
        self.Wk = nn.Linear(d, d)
        self.Wv = nn.Linear(d, d)
        self.post = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d))
        self.d = d

    def attend(self, x):
        B, L, D = x.shape
        flat = x.reshape(-1, D)                      # one matmul for the whole batch
        q, k, v = self.Wq(flat), self.Wk(flat), self.Wv(flat)
        logits = q @ k.t() * self.d ** -0.5  # fault: AS102
        att = torch.softmax(logits, dim=-1)
        return (att @ v).view(B, L, D)

    def forward(self, ids):
        p = torch.arange(ids.shape[-1], device=ids.device)
        x = self.tok(ids) + self.pos(p)
        x = x + self.attend(x)
        emb = self.post(x).mean(dim=1)
        return nn.functional.normalize(emb, dim=-1)


def build():
    with torch.random.fork_rng():
        torch.manual_seed(21)
        return SmallBiEncoder().eval()


model = build
inputs = (torch.randint(0, 257, (3, 11), generator=torch.Generator().manual_seed(2)),)
