"""Packed pretraining batch: several documents in one row, positions restart."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedLM(nn.Module):
    def __init__(self, vocab=90, d=32, h=4, n=2):
        super().__init__()
        self.h = h
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(n))
        self.o = nn.ModuleList(nn.Linear(d, d) for _ in range(n))
        self.head = nn.Linear(d, vocab)

    def forward(self, tokens, doc_ids):
        B, T = tokens.shape
        same = doc_ids[:, :, None] == doc_ids[:, None, :]
        pos = same.tril().sum(-1) - 1
        mask = (same & torch.ones(T, T, dtype=torch.bool).tril())[:, None]
        x = self.wte(tokens) + self.wpe(pos)
        for ln, qkv, o in zip(self.ln, self.qkv, self.o):
            q, k, v = (z.view(B, T, self.h, -1).transpose(1, 2) for z in qkv(ln(x)).chunk(3, -1))
            x = x + o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return self.head(x)


def model():
    torch.manual_seed(9)
    return PackedLM().eval()


inputs = {"tokens": torch.randint(0, 90, (2, 14), generator=torch.Generator().manual_seed(9)),
          "doc_ids": torch.tensor([[0] * 5 + [1] * 9, [0] * 3 + [1] * 6 + [2] * 5])}
expect = {"documents": "doc_ids", "causal": True}
