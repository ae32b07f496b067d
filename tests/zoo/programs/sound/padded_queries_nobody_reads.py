"""Sentence encoder: the pair mask also shuts out padded queries, and the mean takes real tokens only."""

import torch
from torch import nn


class MaskedMHA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dk = heads, dim // heads
        self.w = nn.ModuleDict({k: nn.Linear(dim, dim) for k in ("q", "k", "v", "o")})

    def forward(self, x, pair_mask):
        b, n, d = x.shape
        q, k, v = (self.w[s](x).view(b, n, self.heads, self.dk).transpose(1, 2) for s in "qkv")
        e = q.matmul(k.transpose(-2, -1)) / self.dk**0.5
        a = e.masked_fill(~pair_mask.unsqueeze(1), -1e9).softmax(-1)
        return self.w["o"](a.matmul(v).transpose(1, 2).reshape(b, n, d))


class SentenceEncoder(nn.Module):
    def __init__(self, vocab=61, dim=33, heads=3, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = nn.Embedding(vocab, dim, padding_idx=pad_id)
        self.position = nn.Embedding(50, dim)
        self.attn = nn.ModuleList(MaskedMHA(dim, heads) for _ in range(2))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, tokens):
        real = tokens != self.pad_id
        pair = real[:, :, None] & real[:, None, :]
        x = self.embedding(tokens) + self.position(torch.arange(tokens.size(1), device=tokens.device))
        for attn, ln in zip(self.attn, self.ln):
            x = ln(x + attn(x, pair))
        w = real.unsqueeze(-1).to(x.dtype)
        sentence = (x * w).sum(1) / w.sum(1)
        return nn.functional.normalize(sentence, dim=-1)


with torch.random.fork_rng():
    torch.manual_seed(18)
    model = SentenceEncoder().eval()

_tok = torch.randint(1, 61, (4, 12), generator=torch.Generator().manual_seed(19))
inputs = {"tokens": _tok * (torch.arange(12) < torch.tensor([12, 10, 5, 3])[:, None])}
expect = {"padding": "tokens pad=0"}
