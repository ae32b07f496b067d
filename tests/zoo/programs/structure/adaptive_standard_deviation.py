"""Causal attention whose scale follows the spread of the scores."""

import torch
from torch import nn


class TemperedAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.d_head = d_model // n_head
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.in_proj(x).view(n, t, 3, self.n_head, self.d_head).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1)
        scale = scores.detach().std()  # fault: AS305
        scores = scores / scale  # fault: AS305
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).reshape(n, t, d))


class TemperedLM(nn.Module):
    def __init__(self, vocab=39, d_model=30, n_head=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.pos = nn.Parameter(torch.randn(40, d_model) * 0.02)
        self.ln = nn.LayerNorm(d_model)
        self.attn = TemperedAttention(d_model, n_head)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, ids):
        h = self.emb(ids) + self.pos[: ids.size(1)]
        h = h + self.attn(self.ln(h))
        return self.head(h)


with torch.random.fork_rng():
    torch.manual_seed(190)
    model = TemperedLM().eval()

inputs = {"ids": torch.randint(0, 39, (3, 14), generator=torch.Generator().manual_seed(191))}
expect = {"causal": True}

# also: AS102 AS201
