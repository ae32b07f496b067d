"""Sentiment on a GPT trunk: the head reads the first position, as of a BERT, where GPT saw nothing."""

import torch
from torch import nn
from torch.nn import functional as F


class CausalBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class SentimentGPT(nn.Module):
    def __init__(self, vocab=60, width=32, heads=4, layers=2, classes=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(64, width)
        self.h = nn.ModuleList(CausalBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.score = nn.Linear(width, classes)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        return self.score(x[:, 0])  # fault: AS212


model = SentimentGPT().eval()
inputs = torch.randint(0, 60, (3, 12))
expect = {"causal": True}
