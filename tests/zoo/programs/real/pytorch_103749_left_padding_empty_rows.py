"""Batched scoring of left-padded prompts with a combined boolean mask, https://github.com/pytorch/pytorch/issues/103749."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, allowed):
        batch, length, _ = x.shape
        qkv = self.in_proj(self.norm(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.mT / query.size(-1) ** 0.5
        scores = scores.masked_fill(~allowed, float("-inf"))  # fault: AS203|AS802
        attention = torch.softmax(scores, dim=-1)  # fault: AS203|AS802
        context = (attention @ value).transpose(1, 2).reshape(batch, length, -1)
        return x + self.out_proj(context)


class PromptScorer(nn.Module):
    def __init__(self, vocab=47, width=40, heads=5, depth=2, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(max_len, width)
        self.layers = nn.ModuleList([Attention(width, heads) for _ in range(depth)])
        self.score = nn.Linear(width, vocab)

    def forward(self, tokens, attention_mask):
        length = tokens.shape[1]
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
        x = self.tok(tokens) + self.pos(positions)
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        allowed = causal & attention_mask.bool()[:, None, None, :]  # fault: AS203|AS802
        for layer in self.layers:
            x = layer(x, allowed)
        return self.score(x)


with torch.random.fork_rng():
    torch.manual_seed(749)
    model = PromptScorer().eval()
    tokens = torch.randint(1, 47, (3, 9))
    keep = torch.ones(3, 9, dtype=torch.long)
    keep[0, :4] = 0
    keep[2, :2] = 0
    inputs = {"tokens": tokens * keep, "attention_mask": keep}
expect = {"causal": True, "padding": "attention_mask keep"}
